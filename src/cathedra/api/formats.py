"""Formats of names, keys and values of the API, each a function from text to problems.

A format function returns the problems of a text in Kubernetes' wording and order, or nothing. Its caller adds the path
of the field (docs/spec/api.md §3.2).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from cathedra.api.field import ErrorList, FieldPath
from cathedra.remembering import remembered

Format = Callable[[str], list[str]]

_CHARACTERS: Final = "no more than 253 characters"
_BYTES: Final = "no more than 253 bytes"

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SHORT_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
"""Matches most names: a label, which is a subdomain too. Other texts are checked in full."""
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_C_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)

_LABEL_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    " validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_ANY_CASE_SUBDOMAIN_TEXT: Final = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'Example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_WITH_PREFIX_TEXT: Final = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_C_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_REASON_TEXT: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def check(errors: ErrorList, field: str, value: str, form: Format) -> None:
    """Enter one Invalid per problem of ``form`` about ``value``."""
    # Long texts are no valid names. Caching them would let a request fill the memory.
    for problem in _known_problems(form, value) if len(value) <= _LONGEST else form(value):
        errors.invalid(field, value, problem)


def problems_of(form: Format, value: str) -> Sequence[str]:
    """Return the problems that ``form`` finds in ``value``. Results for texts that are no longer than a name are
    cached, because objects repeat few names of drivers, pools, classes and accounts."""
    return _known_problems(form, value) if len(value) <= _LONGEST else form(value)


@remembered("api.formats.known_problems", size=4096)
def _known_problems(form: Format, value: str) -> tuple[str, ...]:
    return tuple(form(value))


def unique(errors: ErrorList, path: FieldPath, keys: Sequence[Any]) -> None:
    """Enter one Duplicate for every key of a list that occurred before."""
    seen: set[Any] = set()
    for position, key in enumerate(keys):
        if key in seen:
            errors.duplicate(path.index(position), key)
        seen.add(key)


def _size(text: str) -> int:
    # Go counts bytes. Encoding every name would cost more than the check itself.
    return len(text) if text.isascii() else len(text.encode())


def longer_than(text: str, limit: int) -> bool:
    """Return True if the UTF-8 of ``text`` has more than ``limit`` bytes."""
    return len(text) > limit if text.isascii() else len(text.encode()) > limit


def dns_label(value: str) -> list[str]:
    """Validate a DNS label: lower-case letters, digits and inner dashes; 1 to 63 characters."""
    if _SHORT_LABEL.fullmatch(value):
        return []
    found = [] if _size(value) <= 63 else ["must be no more than 63 characters"]
    if _LABEL.fullmatch(value):
        return found
    return [*found, "must not contain dots" if _SUBDOMAIN.fullmatch(value) else _LABEL_TEXT]


def dns_1035_label(value: str) -> list[str]:
    """Validate a label that begins with a letter, as names of services do; 1 to 63 bytes."""
    found = [] if len(value.encode()) <= 63 else ["must be no more than 63 bytes"]
    return found if _LABEL_1035.fullmatch(value) else [*found, _LABEL_1035_TEXT]


def path_segment(value: str) -> list[str]:
    """Validate a text that can be one segment of a URL's path."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    if "/" not in value and "%" not in value:
        return []
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def dns_subdomain(value: str) -> list[str]:
    """Validate a DNS subdomain: labels joined with dots; 1 to 253 characters."""
    if _SHORT_LABEL.fullmatch(value):
        return []
    found = [] if _size(value) <= 253 else ["must be no more than 253 characters"]
    return found if _SUBDOMAIN.fullmatch(value) else [*found, _SUBDOMAIN_TEXT]


def in_bytes(form: Format) -> Format:
    """Return the same rule in the words of the newer, declarative validation, which counts bytes."""
    return lambda value: [
        text.replace("characters", "bytes") if text.startswith("must be no more than") else text for text in form(value)
    ]


def masked(value: str) -> str:
    """Return a ``generateName`` as a name it could become part of: a dash at the end is no fault."""
    # As Kubernetes masks it: the suffix that follows is alphanumeric.
    return value[:-2] + "a" if value[-1:] == "-" and value != "-" else value


def dns_subdomain_ignoring_case(value: str) -> list[str]:
    """Validate a DNS subdomain, upper-case letters allowed."""
    if _SHORT_LABEL.fullmatch(value):
        return []
    found = [] if _size(value) <= 253 else ["must be no more than 253 characters"]
    return found if _SUBDOMAIN.fullmatch(value.lower()) else [*found, _ANY_CASE_SUBDOMAIN_TEXT]


def c_identifier(value: str) -> list[str]:
    """Letters, digits and underscores, no digit first; the length is the caller's business."""
    return [] if _C_IDENTIFIER.fullmatch(value) else [_C_IDENTIFIER_TEXT]


def label_key(value: str) -> list[str]:
    """Validate a name of at most 63 characters, optionally after a DNS subdomain and a slash. Since 1.34 all names of
    this form are called keys of labels, also finalizers and resources."""
    # Keys of labels and annotations, and finalizers, are few; what is longer than any of them may be is not kept.
    return list((_remembered_problems if len(value) <= _LONGEST else _problems)(value))


qualified_name: Final = label_key
"""The same, where a resource or a finalizer has such a name."""


_LONGEST: Final = 317
"""Characters of a domain, a slash and a name: what is longer is no name of any form, and is not remembered."""


def _problems(value: str) -> tuple[str, ...]:
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return (f"a valid label key {_NAME_TEXT}{_WITH_PREFIX_TEXT}",)
    found = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {problem.replace(_CHARACTERS, _BYTES)}" for problem in dns_subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif _size(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        found.append(f"name part {_NAME_TEXT}")
    return tuple(found)


_remembered_problems: Final = remembered("api.formats.problems", size=4096)(_problems)


def label_value(value: str) -> list[str]:
    """Empty, or like the name part of a key; at most 63 characters."""
    found = [] if _size(value) <= 63 else ["must be no more than 63 bytes"]
    return found if not value or _NAME.fullmatch(value) else [*found, _VALUE_TEXT]


def condition_reason(value: str) -> list[str]:
    """Validate a word as conditions have it for a reason."""
    return [] if _REASON.fullmatch(value) else [_REASON_TEXT]


def semver(value: str) -> list[str]:
    """Validate a version as of semver.org 2.0.0, strictly."""
    return [] if _SEMVER.fullmatch(value) else ["must be a string compatible with semver.org spec 2.0.0"]


def uuid(value: str) -> list[str]:
    """Validate a UUID in its normal form: 36 characters, lower case."""
    if _UUID.fullmatch(value):
        return []
    compact = _parsed_uuid(value)
    if compact is not None:
        return [compact]
    return [
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
        "hexadecimal characters"
    ]


def _parsed_uuid(value: str) -> str | None:
    """Return why ``value`` is no UUID in any of the accepted forms. Return None if it is one, even if not in the normal
    form."""
    size = _size(value)
    text = value
    if size == 45:
        if value[:9].lower() != "urn:uuid:":
            return f'error validating uid: invalid urn prefix: "{value[:9]}"'
        text = value[9:]
    elif size == 38:
        text = value[1:-1]
    elif size == 32:
        return None if _HEX.fullmatch(value) else "error validating uid: invalid UUID format"
    elif size != 36:
        return f"error validating uid: invalid UUID length: {size}"
    dashes = [text[position : position + 1] for position in (8, 13, 18, 23)]
    if dashes != ["-"] * 4 or not _HEX.fullmatch(text.replace("-", "")):
        return "error validating uid: invalid UUID format"
    return None


def interface_address(value: str) -> list[str]:
    """Validate an address with the length of its network's prefix, in canonical form: «192.0.2.5/24»."""
    parsed: ipaddress.IPv4Interface | ipaddress.IPv6Interface | None
    try:
        parsed = ipaddress.ip_interface(value)
    except ValueError:
        parsed = _lenient_interface(value)
    if parsed is None or "/" not in value or "%" in value or not value.rpartition("/")[2].isdigit():
        lenient = _lenient_interface(value)
        if lenient is None:
            return ["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"]
        parsed = lenient
    canonical = _canonical_interface(parsed)
    return [] if value == canonical else [f'must be in canonical form ("{canonical}")']


def lenient_cidr(value: str) -> list[str]:
    """Validate an address with the length of its network's prefix, in any spelling."""
    if canonical_interface(value):
        return []
    return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


def canonical_interface(value: str) -> str:
    """Return the one spelling of an address with the length of its network's prefix; "" if it is none."""
    parsed = _lenient_interface(value)
    return _canonical_interface(parsed) if parsed is not None else ""


def _lenient_interface(value: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    """As old parsers read it, leading zeros allowed."""
    address, slash, length = value.rpartition("/")
    if not slash or not length.isdigit() or not length.isascii() or "%" in address:
        return None
    head, colon, tail = address.rpartition(":")
    if "." in tail:
        parts = tail.split(".")
        if any(not (part.isascii() and part.isdigit()) or len(part) > 3 for part in parts):
            return None
        tail = ".".join(str(int(part)) for part in parts)
    try:
        return ipaddress.ip_interface(f"{head}{colon}{tail}/{int(length)}")
    except ValueError:
        return None


def _canonical_interface(parsed: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> str:
    # Go writes such an address as IPv4, and its prefix without the 96 bits of the mapping.
    if isinstance(parsed, ipaddress.IPv6Interface) and parsed.ip.ipv4_mapped is not None:
        length = parsed.network.prefixlen
        return f"{parsed.ip.ipv4_mapped}/{length - 96 if length >= 96 else length}"
    return f"{parsed.ip.compressed}/{parsed.network.prefixlen}"


def extended_resource_name(value: str) -> bool:
    """Return True if it names a resource of another domain than Kubernetes', as «example.com/gpu»."""
    if "/" not in value or "kubernetes.io/" in value or value.startswith("requests."):
        return False
    return not qualified_name(f"requests.{value}")
