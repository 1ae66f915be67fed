"""Checks of single values that tags name, in the words of declarative validation, which counts bytes.

Each enters what is wrong with a value (k8s.io/apimachinery, pkg/api/validate: strfmt.go, limits.go, enum.go).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from cathedra.api import formats
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.formats import Format, check, longer_than, problems_of

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
    check(errors, path, name, formats.c_identifier)


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
