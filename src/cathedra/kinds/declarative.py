"""Declarative validation: rules that are tags beside the fields of an API type (docs/spec/api.md §3.1), applied as
Kubernetes' generated functions do it.

An unchanged part is not validated again. An element of a list is compared with the stored element of the same key;
without keys each element counts as new (k8s.io/apimachinery, pkg/api/validate: each.go, update.go, union.go).

`with_tags` merges the result with the errors of the kind's own rules. If a tag reports an error of the same type for
the same field, the rule's error is left out. Errors of tags come last and have the paths of the request's version
(k8s.io/apimachinery, pkg/api/validate/errors.go: FilterCoveredHandwrittenErrors).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from cathedra.api import formats
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.formats import Format, longer_than, problems_of
from cathedra.api.struct import KubeStruct, json_names, to_dict
from cathedra.releases import FeatureGates, behaviours

__all__ = [
    "declared_errors",
    "merged",
    "with_tags",
]


def declared_errors(tags: TypeTags, new: KubeStruct, old: KubeStruct | None, *, beta: bool) -> ErrorList:
    """Return the errors that the tags of an object's type find in it; ``old`` is the replaced object, None on create.

    Without ``beta`` (the gate ``DeclarativeValidationBeta``) only rules that are stable report anything.
    """
    if old is not None and not tags.union and _is_unchanged(tags, new, old):
        return ErrorList()
    walk = _Walk(beta=beta)
    walk.struct(FieldPath(), tags, new, old)
    return walk.errors


def _is_unchanged(tags: TypeTags, new: KubeStruct, old: KubeStruct) -> bool:
    """Return True if the fields that have tags are as they were, as in a change of metadata."""
    read, _ = _plan(type(new), tags)
    return read(new) == read(old)


class _Walk:
    """The walk over one object. Errors of beta rules are dropped while these are off."""

    def __init__(self, *, beta: bool) -> None:
        self.errors = ErrorList()
        self._beta = beta

    def struct(self, path: FieldPath, tags: TypeTags, obj: Any, old: Any) -> None:
        if tags.union:
            _union(self._errors_of(tags), path, tags.union, obj, old)
        kind: Any = type(obj)
        read, fields = _plan(kind, tags)
        if old is not None:
            for field, value, before in zip(fields, read(obj), read(old), strict=True):
                # Ratcheting: an unchanged part stays valid even if a newer release has stricter rules for it. Otherwise
                # an upgrade would make stored objects unchangeable.
                if value is before or value == before:
                    continue
                name, pointer, its = field
                if before is None and (pointer or value) and not its.guards_change:
                    self._given(path.child(name), its, value)
                else:
                    self._changed(path, field, value, before)
            return
        for field, value in zip(fields, read(obj), strict=True):
            name, pointer, its = field
            if value is None or not (pointer or value):
                if its.required:
                    self._errors_of(its).required(path.child(name))
            else:
                self._given(path.child(name), its, value)

    def _errors_of(self, tags: FieldTags | TypeTags) -> ErrorList:
        return self.errors if self._beta or tags.stable else ErrorList()

    def _changed(self, path: FieldPath, field: tuple[str, bool, FieldTags], value: Any, before: Any) -> None:
        """Validate a field whose value has changed."""
        name, pointer, tags = field
        where, errors = path.child(name), self._errors_of(tags)
        is_empty = value is None or not (pointer or value)
        if is_empty and tags.required:
            errors.required(where)
        is_too_long = not is_empty and _is_too_long(errors, where, tags, value)
        if not (_is_frozen(errors, where, tags, value, before) or is_empty or is_too_long):
            self._value(errors, where, tags, value, before)

    def _given(self, path: FieldPath, tags: FieldTags, value: Any) -> None:
        """Validate a field that is new and not empty."""
        errors = self.errors if self._beta or tags.stable else ErrorList()
        if tags.max_items is None or not _is_too_long(errors, path, tags, value):
            self._value(errors, path, tags, value, None)

    def _value(self, errors: ErrorList, path: FieldPath, tags: FieldTags, value: Any, before: Any) -> None:
        # Most are structs and texts, and the test for a mapping costs three times as much.
        if not isinstance(value, (KubeStruct, str)):
            if isinstance(value, tuple):
                self._list(errors, path, tags, value, before or ())
                return
            if isinstance(value, Mapping):
                self._map(errors, path, tags, value, before or {})
                return
        for check in tags.checks:
            check(errors, path, value)
        if tags.of is not None:
            self.struct(path, tags.of, value, before)

    def _list(
        self, errors: ErrorList, path: FieldPath, tags: FieldTags, items: Sequence[Any], before: Sequence[Any]
    ) -> None:
        unique = tags.unique
        if unique is not None and len(items) > 1:
            _unique(errors, path, unique, items)
        if tags.of is None and not tags.checks:
            return
        # Reversed, so that of several stored elements with one key the first is compared, as in Kubernetes.
        stored = {_key(unique, item): item for item in reversed(before)} if unique is not None else {}
        for position, item in enumerate(items):
            old = stored.get(_key(unique, item)) if unique is not None and stored else None
            if old is not None and item == old:
                continue
            for check in tags.checks:
                check(errors, path.index(position), item)
            if tags.of is not None:
                self.struct(path.index(position), tags.of, item, old)

    def _map(
        self, errors: ErrorList, path: FieldPath, tags: FieldTags, items: Mapping[str, Any], before: Mapping[str, Any]
    ) -> None:
        # Sorted like all maps here: Go iterates maps in random order and Kubernetes sorts their keys, so that messages
        # are stable.
        for key in sorted(items) if tags.keys else ():
            if key not in before:
                for check in tags.keys:
                    check(errors, path, key)
        if tags.of is None:
            return
        for key in sorted(items):
            old = before.get(key)
            if old is None or items[key] != old:
                self.struct(path.key(key), tags.of, items[key], old)


def _is_frozen(errors: ErrorList, path: FieldPath, tags: FieldTags, value: Any, before: Any) -> bool:
    """Report a change that the field's tags forbid. Return True if one was reported."""
    if tags.immutable:
        errors.invalid(path, None, "field is immutable")
    elif tags.unmodified and value is not None and before is not None:
        errors.invalid(path, None, "field cannot be modified once set")
    elif tags.settled and before is None and value is not None:
        errors.invalid(path, None, "field cannot be set once created")
    elif tags.settled and before is not None and value is None:
        errors.invalid(path, None, "field cannot be cleared once set")
    elif tags.fixed_items:
        return _has_other_items(errors, path, tags.unique or (), value or (), before or ())
    else:
        return False
    return True


def _has_other_items(
    errors: ErrorList, path: FieldPath, names: tuple[str, ...], items: Sequence[Any], before: Sequence[Any]
) -> bool:
    """Report the elements that were added or removed. Return True if there are any."""
    count = len(errors)
    old, new = {_key(names, item) for item in before}, {_key(names, item) for item in items}
    for position, item in enumerate(items):
        if _key(names, item) not in old:
            errors.forbidden(path.index(position), "item may not be added")
    for item in before:
        if _key(names, item) not in new:
            errors.forbidden(path, "item may not be removed")
    return len(errors) > count


def _is_too_long(errors: ErrorList, path: FieldPath, tags: FieldTags, value: Any) -> bool:
    """Return True if a list has too many elements, and record it as the only error of the list."""
    if tags.max_items is None or len(value) <= tags.max_items:
        return False
    errors.too_many(path, len(value), tags.max_items)
    return True


def _unique(errors: ErrorList, path: FieldPath, names: tuple[str, ...], items: Sequence[Any]) -> None:
    seen: set[Hashable] = set()
    for position, item in enumerate(items):
        key = _key(names, item)
        if key in seen:
            errors.duplicate(path.index(position), to_dict(item) if names else item)
        seen.add(key)


def _key(names: tuple[str, ...], item: Any) -> Hashable:
    kind: Any = type(item)
    key: Hashable = _getter(kind, names)(item) if names else item
    return key


def _union(errors: ErrorList, path: FieldPath, members: tuple[str, ...], obj: Any, old: Any) -> None:
    kind: Any = type(obj)
    read = _union_reader(kind, members)
    given = [value is not None and value != () for value in read(obj)]
    if sum(given) == 1:
        return
    if old is not None and given == [value is not None and value != () for value in read(old)]:
        return
    names = ", ".join(f"`{name}`" for name in members)
    if any(given):
        found = ", ".join(name for name, is_given in zip(members, given, strict=True) if is_given)
        errors.invalid(path, f"{{{found}}}", f"must specify exactly one of: {names}")
    else:
        errors.invalid(path, "", f"must specify one of: {names}")


@cache
def _attributes(kind: type[KubeStruct]) -> dict[str, tuple[str, bool]]:
    """JSON name → attribute, and whether it is a pointer: then an empty value is a value, too."""
    pointers = {field.name: field.default is None for field in msgspec.structs.fields(kind)}
    return {name: (attribute, pointers[attribute]) for attribute, name in json_names(kind).items()}


@cache
def _plan(
    kind: type[KubeStruct], tags: TypeTags
) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[tuple[str, bool, FieldTags], ...]]:
    """Return a reader of the fields with tags, and the name of each, whether it is a pointer, and its tags."""
    attributes = _attributes(kind)
    names = [attributes[name][0] for name in tags.fields]
    return _reader(names), tuple((name, attributes[name][1], field) for name, field in tags.fields.items())


@cache
def _union_reader(kind: type[KubeStruct], members: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    # A reader returns a tuple for one member, too; an attrgetter would return the bare value.
    return _reader([_attributes(kind)[name][0] for name in members])


def _reader(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) != 1:
        return attrgetter(*names) if names else lambda _: ()
    read = attrgetter(names[0])
    return lambda obj: (read(obj),)


@cache
def _getter(kind: type[KubeStruct], names: tuple[str, ...]) -> attrgetter[Any]:
    return attrgetter(*(_attributes(kind)[name][0] for name in names))


def _same(path: str) -> str:
    return path


def with_tags(
    handwritten: ErrorList,
    tags: TypeTags,
    new: KubeStruct,
    old: KubeStruct | None,
    gates: FeatureGates,
    normalized: Callable[[str], str] = _same,
) -> ErrorList:
    """Return the errors of a kind's rules, merged with those of its type's tags; ``old`` is the object that ``new``
    replaces.

    Until 1.36 tags of kinds that have rules were only compared with them.
    """
    if not (tags.fields or tags.union) or not gates.has(behaviours.DECLARED_TAGS_ENFORCED):
        return handwritten
    declared = declared_errors(tags, new, old, beta=gates["DeclarativeValidationBeta"])
    return merged(handwritten, declared, normalized) if declared else handwritten


def merged(handwritten: ErrorList, declared: ErrorList, normalized: Callable[[str], str] = _same) -> ErrorList:
    """Return the errors that a client sees. ``normalized`` makes a path of the request's version one that the kind's
    rules would give."""
    covered = {(error.type, normalized(error.field), error.origin) for error in declared}
    kept = [error for error in handwritten if (error.type, error.field, error.origin) not in covered]
    return ErrorList([*kept, *declared])


# Tags of an API type as data: the rules of its fields, and the keys of its lists.
#
# They are written down per version of a kind, since declarative validation sees the object in the version of the
# request. Fields without a rule, in themselves or below, are left out (k8s.io/code-generator, cmd/validation-gen).

_NO_FIELDS: Final[Mapping[str, FieldTags]] = MappingProxyType({})


class TypeTags(msgspec.Struct, frozen=True, eq=False):
    """The tags of a struct: its fields by JSON name, in the order of the type."""

    fields: Mapping[str, FieldTags] = msgspec.field(default_factory=lambda: _NO_FIELDS)
    union: tuple[str, ...] = ()
    """``unionMember``: the JSON names of the fields of which exactly one is set."""
    stable: bool = False
    """True if the union is enforced without ``DeclarativeValidationBeta``."""


# Checks of single values that tags name, in the words of declarative validation, which counts bytes.
#
# Each enters what is wrong with a value (k8s.io/apimachinery, pkg/api/validate: strfmt.go, limits.go, enum.go).

Check: TypeAlias = Callable[[ErrorList, FieldPath, Any], None]

_MAX_POOL: Final = 253
_MAX_DOMAIN: Final = 63
_MAX_IDENTIFIER: Final = 32
_subdomain: Final = formats.in_bytes(formats.dns_subdomain)


def _named(form: Format) -> Check:
    def enter(errors: ErrorList, path: FieldPath, value: str) -> None:
        for problem in problems_of(form, value):
            errors.invalid(path, value, problem)

    return enter


short_name: Final = _named(formats.in_bytes(formats.dns_label))
"""``k8s-short-name``: a DNS label."""
long_name: Final = _named(_subdomain)
"""``k8s-long-name``: a DNS subdomain."""
long_name_caseless: Final = _named(formats.in_bytes(formats.dns_subdomain_ignoring_case))
"""``k8s-long-name-caseless``: a DNS subdomain, upper-case letters allowed."""
path_segment: Final = _named(formats.path_segment)
"""Check of the format ``k8s-path-segment-name``."""
label_key: Final = _named(formats.label_key)
"""Check of the format ``k8s-label-key``."""


def uuid(errors: ErrorList, path: FieldPath, value: str) -> None:
    """``k8s-uuid``: 36 characters, lower case."""
    if formats.uuid(value):
        errors.invalid(path, value, "must be a lowercase UUID in 8-4-4-4-12 format")


def pool_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    """``k8s-resource-pool-name``: DNS subdomains joined with slashes."""
    if longer_than(name, _MAX_POOL):
        errors.too_long(path, _MAX_POOL)
    for position, segment in enumerate(name.split("/")):
        if not segment:
            errors.invalid(path, name, f"segment {position}: must not be empty")
            continue
        for problem in problems_of(_subdomain, segment):
            errors.invalid(path, segment, f"segment {position}: {problem}")


def extended_resource_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    """``k8s-extended-resource-name``: a resource of another domain than Kubernetes', as «example.com/gpu»."""
    if "/" not in name:
        errors.invalid(path, name, "a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        errors.invalid(path, name, 'must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        errors.invalid(path, name, 'must not have "requests." prefix')
    # Quotas count it under this name.
    for problem in formats.label_key(f"requests.{name}"):
        errors.invalid(path, name, problem)


def fully_qualified_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    """``k8s-resource-fully-qualified-name``: a domain in lower case and an identifier; more slashes pass unseen."""
    parts = name.split("/")
    if len(parts) == 1:
        _identifier(errors, path, name)
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")
    if len(parts) != 2:
        return
    domain, identifier = parts
    if not domain:
        errors.invalid(path, "", "prefix must not be empty")
    else:
        if longer_than(domain, _MAX_DOMAIN):
            errors.too_long(path, _MAX_DOMAIN)
        for problem in _subdomain(domain):
            errors.invalid(path, domain, f"prefix: {problem}")
    if not identifier:
        errors.invalid(path, "", "name must not be empty")
    else:
        _identifier(errors, path, identifier)


def _identifier(errors: ErrorList, path: FieldPath, name: str) -> None:
    if longer_than(name, _MAX_IDENTIFIER):
        errors.too_long(path, _MAX_IDENTIFIER)
    formats.check(errors, path, name, formats.c_identifier)


def forbidden(errors: ErrorList, path: FieldPath, _: Any) -> None:
    """``forbidden``: the field must not be set."""
    errors.forbidden(path, "")


def max_length(limit: int) -> Check:
    """``maxLength``: at most that many characters."""

    def enter(errors: ErrorList, path: FieldPath, value: str) -> None:
        if len(value) > limit:
            detail = f"may not be more than {limit} characters"
            errors.append(FieldError(ErrorType.TOO_LONG, path, "", detail))

    return enter


def max_bytes(limit: int) -> Check:
    """``maxBytes``: at most that many bytes of UTF-8."""

    def enter(errors: ErrorList, path: FieldPath, value: str) -> None:
        if longer_than(value, limit):
            errors.too_long(path, limit)

    return enter


def minimum(least: int) -> Check:
    """``minimum``: at least that much."""

    def enter(errors: ErrorList, path: FieldPath, value: int) -> None:
        if value < least:
            errors.invalid(path, value, f"must be greater than or equal to {least}")

    return enter


def maximum(most: int) -> Check:
    """``maximum``: at most that much."""

    def enter(errors: ErrorList, path: FieldPath, value: int) -> None:
        if value > most:
            errors.invalid(path, value, f"must be less than or equal to {most}")

    return enter


def one_of(*values: str) -> Check:
    """``enum``: one of the type's values."""

    def enter(errors: ErrorList, path: FieldPath, value: str) -> None:
        if value not in values:
            errors.not_supported(path, value, values)

    return enter


class FieldTags(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a field. One that is not ``required`` is optional: when it is empty, its other rules are skipped.

    ``required``, ``immutable``, ``unmodified``, ``settled``, ``fixed_items`` and ``max_items`` are checked first. If
    one of them is broken, nothing below the field is checked.
    """

    required: bool = False
    immutable: bool = False
    unmodified: bool = False
    """``update=NoModify``: may be set and cleared, but not changed."""
    settled: bool = False
    """``update=NoSet,NoUnset``: may be changed, but neither set nor cleared after creation."""
    fixed_items: bool = False
    """``update=NoAddItem,NoRemoveItem``: elements of a list may be changed, but neither added nor removed."""
    max_items: int | None = None
    checks: tuple[Check, ...] = ()
    """Of the value; of a list, of each element."""
    keys: tuple[Check, ...] = ()
    """``eachKey``: of each key of a map."""
    unique: tuple[str, ...] | None = None
    """``unique=map``, ``listType=map``: JSON names of the key fields of an element. A set has none."""
    of: TypeTags | None = None
    """The tags of the field's own type, or of its elements' or values'."""
    stable: bool = False
    """True if the rules are enforced without ``DeclarativeValidationBeta``."""

    @property
    def guards_change(self) -> bool:
        """Return True if setting or clearing the field is restricted."""
        return self.immutable or self.settled or self.fixed_items
