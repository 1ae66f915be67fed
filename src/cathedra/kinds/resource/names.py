"""Rules of names, bounded lists and taints that the device kinds share (docs/spec/api.md §3.1, §3.2, appendix D).

Names are those of drivers, pools, attributes and opaque parameters. A list that is too long is reported by its length
alone since 1.35, so that no request makes the server validate more items than a list may have; earlier releases
validate all items first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, longer_than, unique
from cathedra.api.struct import RawJSON, Time, replace
from cathedra.releases import FeatureGates, behaviours

MAX_DRIVER: Final = 63
MAX_POOL: Final = 253
MAX_IDENTIFIER: Final = 32
MAX_OPAQUE: Final = 10 * 1024


def validate_driver_name(errors: ErrorList, path: FieldPath, name: str, *, limit: int = MAX_DRIVER) -> None:
    """Validate a DNS subdomain of at most 63 bytes, upper case allowed."""
    if not name:
        errors.required(path)
        return
    if longer_than(name, limit):
        errors.too_long(path, limit)
    # Kubernetes validates these names with its rule for CSI drivers, which permits upper case.
    check(errors, path, name, _lowered_subdomain)


def _lowered_subdomain(name: str) -> list[str]:
    return formats.dns_subdomain(name.lower())


def validate_pool_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    """Validate DNS subdomains joined with slashes, at most 253 bytes in all."""
    if not name:
        errors.required(path)
        return
    if longer_than(name, MAX_POOL):
        errors.too_long(path, MAX_POOL)
    for part in name.split("/"):
        check(errors, path, part, formats.dns_subdomain)


def validate_class_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    """Validate a DNS subdomain; such a class need not exist."""
    if not name:
        errors.required(path)
        return
    check(errors, path, name, formats.dns_subdomain)


def validate_qualified_name(errors: ErrorList, path: FieldPath, name: str, gates: FeatureGates) -> None:
    """Validate an identifier, or a domain and an identifier joined by a slash."""
    # Releases differ in the error's type and text, and clients parse both. Each branch below reproduces one release.
    if not name and not gates.has(behaviours.EMPTY_NAMES_INVALID):
        errors.required(path, "name required")
        return
    parts = name.split("/")
    if len(parts) == 1:
        _identifier(errors, path, name, gates)
        return
    if len(parts) > 2:
        if gates.has(behaviours.NAMES_WITH_TWO_SLASHES_REFUSED):
            errors.invalid(path, name, "must not contain more than one slash")
        return
    domain, identifier = parts
    if not domain:
        _empty(errors, path, "the domain must not be empty", gates)
    else:
        validate_driver_name(errors, path, domain)
    if not identifier:
        _empty(errors, path, "the name must not be empty", gates)
    else:
        _identifier(errors, path, identifier, gates)


def _empty(errors: ErrorList, path: FieldPath, text: str, gates: FeatureGates) -> None:
    if gates.has(behaviours.EMPTY_NAMES_INVALID):
        errors.invalid(path, "", text)
    else:
        errors.required(path, text)


def _identifier(errors: ErrorList, path: FieldPath, name: str, gates: FeatureGates) -> None:
    if longer_than(name, MAX_IDENTIFIER):
        errors.too_long(path, MAX_IDENTIFIER)
    if gates.has(behaviours.IDENTIFIERS_INVALID):
        check(errors, path, name, formats.c_identifier)
        return
    for problem in formats.c_identifier(name):
        errors.type_invalid(path, name, problem)


def validate_fully_qualified_name(errors: ErrorList, path: FieldPath, name: str, gates: FeatureGates) -> None:
    """Validate a qualified name that does have a domain."""
    validate_qualified_name(errors, path, name, gates)
    if "/" in name or (not name and gates.has(behaviours.EMPTY_FULL_NAMES_REPORTED_ONCE)):
        return
    if not gates.has(behaviours.MISSING_DOMAIN_INVALID):
        errors.required(path.child("domain"), "must include a prefix")
    else:
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")


def validate_opaque(errors: ErrorList, path: FieldPath, raw: RawJSON | None, *, stored: bool, required: bool) -> None:
    """Validate a JSON object; a new one has at most 10 KiB."""
    data = raw.data if raw is not None else b""
    if not data or data.strip() == b"null":
        if required:
            errors.required(path)
        return
    # Stored parameters are exempt: an object that was accepted once must stay updatable if the limit is lowered.
    if not stored and len(data) > MAX_OPAQUE:
        errors.too_long(path, MAX_OPAQUE)
        return
    try:
        value = json.loads(data)
    except ValueError as error:
        # Parameters may hold secrets of a driver. Kubernetes does not repeat them in the Status, which ends up in logs.
        errors.invalid(path, "<value omitted>", f"error parsing data as JSON: {error}")
        return
    if not isinstance(value, dict):
        errors.invalid(path, "<value omitted>", "must be a valid JSON object")


T = TypeVar("T")


class ItemRules(NamedTuple, Generic[T]):
    """Rules of a bounded list."""

    limit: int
    validate: Callable[[FieldPath, T], None]
    """Enter the errors of one item, whose path it gets."""
    key: Callable[[T], Hashable] | None = None
    """Return what must differ from item to item. Without it, items may be equal."""


def validate_items(
    errors: ErrorList, path: FieldPath, items: Sequence[T], rules: ItemRules[T], gates: FeatureGates
) -> None:
    """Validate each item, then their number, then that their keys differ."""
    if not items:
        return
    too_many = len(items) > rules.limit
    if too_many and gates.has(behaviours.TOO_MANY_ENDS_VALIDATION):
        errors.too_many(path, len(items), rules.limit)
        return
    for position, item in enumerate(items):
        rules.validate(path.index(position), item)
    if too_many and gates.has(behaviours.TOO_MANY_ITEMS):
        errors.too_many(path, len(items), rules.limit)
    # Older releases give the length error the type of long texts. Both follow the errors of the items.
    elif too_many:
        errors.too_long(path, rules.limit)
    if rules.key is not None and len(items) > 1:
        unique(errors, path, [rules.key(item) for item in items])


EFFECTS: Final = ("NoExecute", "NoSchedule", "None")


def dated_taint(taint: resource.DeviceTaint, now: float) -> resource.DeviceTaint:
    """Return the taint with the time at which it was added, or ``now`` if it has none (epoch seconds)."""
    return taint if taint.time_added is not None else replace(taint, time_added=Time(now))


def validate_taint(
    errors: ErrorList,
    path: FieldPath,
    taint: resource.DeviceTaint,
    gates: FeatureGates,
    *,
    old: resource.DeviceTaint | None = None,
) -> None:
    """Validate a taint; an effect that is stored already is left alone."""
    effects = EFFECTS if gates.has(behaviours.TAINT_EFFECT_NONE) else EFFECTS[:2]
    check(errors, path.child("key"), taint.key, formats.label_key)
    check(errors, path.child("value"), taint.value, formats.label_value)
    # Ratcheting: an effect that a later release added survives updates by a server that does not know it.
    if old is not None and old.effect == taint.effect:
        return
    if not taint.effect:
        errors.required(path.child("effect"))
    elif taint.effect not in effects:
        errors.not_supported(path.child("effect"), taint.effect, effects)
