"""Formats and patterns of texts in schemas of custom resources, by the rules of Kubernetes' libraries.

Other formats are accepted, and nothing checks them; a definition that has one gets a warning.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.apiserver.custom.schema import MAX_DEPTH, deeper_than
from cathedra.cel.library.regex import compile_pattern
from cathedra.cel.regex import Regex
from cathedra.cel.values import Failure


def _matches(pattern: str, flags: int = re.ASCII) -> Callable[[str], bool]:
    """Return a function that matches whole texts.

    No group may be possessive: before Python 3.11.5 one that begins to match and fails skips what it had read.
    """
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


_is_date_shaped = _matches(r"\d{4}-\d\d-\d\d")
_is_email = _matches(
    # A name may stand in front of an address in angle brackets.
    r"""(?x)
    (?: (?P<bracket> [^<>@\x00-\x1f]*+ < ) )?
    (?: [^\s@<>()\[\]:;,\\".]++ (?: \. [^\s@<>()\[\]:;,\\".]++ )* | "(?:[^"\\\r\n]++|\\.)*" )
    @
    (?: [^\s@<>()\[\]:;,\\".]++ (?: \. [^\s@<>()\[\]:;,\\".]++ )* | \[ [^\[\]\\\s]*+ \] )
    (?(bracket) > )
    """
)
_is_time = _matches(r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:.\d+)?(?:z|[+-]\d\d:\d\d)")
_is_label = _matches(r"[^\W_]|[^\W_](?:[^\W_]|-){0,61}[^\W_]", re.UNICODE)
_is_go_duration = _matches(r"[+-]?(?:0|(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:ns|us|µs|μs|ms|s|m|h))+)")
_WORDED_DURATION: Final = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-zµ]++)", re.ASCII)
_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_BEGINNINGS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_is_card_number = _matches(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|(?:222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|6(?:011|5\d\d)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}|6[27]\d{14}"
)
_BYTE: Final = r"(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])"
_HEX: Final = "[0-9a-fA-F]"


def _is_date(text: str) -> bool:
    if not _is_date_shaped(text):
        return False
    try:
        # Go's calendar begins with the year 0, which is a leap year.
        datetime.date(int(text[:4]) or 2000, int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


def _is_moment(text: str) -> bool:
    date, separator, time = text.lower().partition("t")
    return bool(separator) and _is_date(date) and _is_time(time)


def _is_duration(text: str) -> bool:
    """Go's form, or numbers with words: ``3 weeks``."""
    if _is_go_duration(text):
        return True
    units = (match[2].lower() for match in _WORDED_DURATION.finditer(text))
    return any(unit in _UNITS or unit.startswith(_UNIT_BEGINNINGS) for unit in units)


def _is_host(text: str) -> bool:
    """Labels of letters of any script; the last of several has two letters or more and no digits."""
    labels = text.split(".")
    last = labels[-1]
    tail = len(labels) == 1 or (2 <= len(last) <= 63 and last.isalpha())
    return len(text.encode()) <= 255 and tail and all(_is_label(label) for label in labels)


def _is_address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            # A zone is no part of an address, and an IPv4 address may be written as an IPv6 one.
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        return address.version == version and "%" not in text

    return check


def _is_network(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(bits) > 3:
        return False
    if _is_address(4)(address):
        return int(bits) <= 32
    return _is_address(6)(address) and int(bits) <= 128


def _is_uri(text: str) -> bool:
    # start-up time: CEL comes with the first format that needs it
    from cathedra.cel.library.urls import request_uri_error

    return request_uri_error(text) is None


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _is_card_number(digits):
        return False
    doubled = (int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits)))
    return sum(number // 10 + number % 10 for number in doubled) % 10 == 0


def _uuid(version: str = f"{_HEX}{{4}}", variant: str = f"{_HEX}{{4}}") -> Callable[[str], bool]:
    return _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}-?{variant}-?{_HEX}{{12}}")


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(rf"{_HEX}{{24}}"),
    "byte": _matches(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _is_network,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "date-time": _is_moment,
    "datetime": _is_moment,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _matches(rf"\#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_host,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8s-long-name": lambda text: not formats.dns_subdomain(text),
    "k8s-short-name": lambda text: not formats.dns_label(text),
    "mac": _matches(rf"{_HEX}{{2}}(?:([:-]){_HEX}{{2}}(?:\1{_HEX}{{2}}){{4}}|([:-]){_HEX}{{2}}(?:\2{_HEX}{{2}}){{6}}"
                    rf"|([:-]){_HEX}{{2}}(?:\3{_HEX}{{2}}){{18}})"
                    rf"|{_HEX}{{4}}(?:(?:\.{_HEX}{{4}}){{2}}|(?:\.{_HEX}{{4}}){{3}}|(?:\.{_HEX}{{4}}){{9}})"),
    "password": lambda text: True,
    "rgbcolor": _matches(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _uuid(),
    "uuid3": _uuid(version=f"3{_HEX}{{3}}"),
    "uuid4": _uuid(version=f"4{_HEX}{{3}}", variant=f"[89abAB]{_HEX}{{3}}"),
    "uuid5": _uuid(version=f"5{_HEX}{{3}}", variant=f"[89abAB]{_HEX}{{3}}"),
}  # fmt: skip
"""Format → whether a text has it. Formats of numbers are bounds, and checked with the numbers."""


# --- formats that are unknown ---------------------------------------------------------------------------------------


_KNOWN: Final = frozenset(name.replace("-", "") for name in FORMATS) | {"quantity"}
"""Formats of texts. Kubernetes forgets the type when it looks for others, so those of numbers are among them."""
_LISTS: Final = ("allOf", "oneOf", "anyOf")
_SINGLE: Final = ("items", "not", "additionalProperties")


def unrecognized_formats(definition: CustomResourceDefinition) -> list[str]:
    """Return the formats that are not known, in the order of versions and fields, each as often as it is there."""
    found: list[str] = []
    for version in definition.spec.versions:
        if version.schema is None or version.schema.open_apiv3_schema is None:
            continue
        try:
            source = version.schema.open_apiv3_schema.load()
        except RecursionError:
            continue  # refused by validation
        if isinstance(source, Mapping) and not deeper_than(MAX_DEPTH, source):
            found.extend(_in_schema(source))
    return found


def _in_schema(source: Mapping[str, Any]) -> Iterator[str]:
    name = source.get("format")
    if isinstance(name, str) and name and name.replace("-", "") not in _KNOWN:
        yield name
    for key in _SINGLE:
        if isinstance(source.get(key), Mapping):
            yield from _in_schema(source[key])
    for key in _LISTS:
        for inner in source.get(key) or ():
            if isinstance(inner, Mapping):
                yield from _in_schema(inner)
    properties = source.get("properties")
    if isinstance(properties, Mapping):
        for _, inner in sorted(properties.items()):
            if isinstance(inner, Mapping):
                yield from _in_schema(inner)


# --- regular expressions --------------------------------------------------------------------------------------------


def compiled_pattern(text: str) -> Regex | None:
    """Return the compiled pattern; None if ``text`` is no regular expression."""
    found = compile_pattern(text)
    return None if isinstance(found, Failure) else found


def pattern_problem(text: str) -> str:
    """Return why ``text`` is no regular expression, in the words of Go's ``regexp``; empty if it is one."""
    found: Any = compile_pattern(text)
    return found.text if isinstance(found, Failure) else ""
