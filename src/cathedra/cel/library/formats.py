"""Named formats: ``format.dns1123Label().validate(…)`` (docs/spec/cel.md §6.8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from cathedra.cel.library.costs import Cost, search, size
from cathedra.cel.library.estimates import Estimate, EstimatedCall
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.library.times import parse_timestamp
from cathedra.cel.library.urls import request_uri_error
from cathedra.cel.values import NONE, CELValue, Failure, Opaque, Optional

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


def _regex_error(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    shown = shown.replace(",  or", ",  or")
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _masked(name: str) -> str:
    """Return a prefix of a name in which a final dash is replaced: more text will follow it."""
    return name[:-2] + "a" if name.endswith("-") and len(name) > 1 else name


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []


def dns_label_errors(text: str, *, prefix: bool = False) -> list[str]:
    """Return the reasons why ``text`` is no RFC 1123 label."""
    text = _masked(text) if prefix else text
    errors = _too_long(text, 63)
    if not re.fullmatch(_LABEL, text, re.ASCII):
        message = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, _LABEL, "my-name", "123-abc"))
    return errors


def dns_subdomain_errors(text: str, *, prefix: bool = False) -> list[str]:
    """Return the reasons why ``text`` is no RFC 1123 subdomain."""
    text = _masked(text) if prefix else text
    errors = _too_long(text, 253)
    if not re.fullmatch(_SUBDOMAIN, text, re.ASCII):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, _SUBDOMAIN, "example.com"))
    return errors


def _dns1035(text: str, *, prefix: bool = False) -> list[str]:
    text = _masked(text) if prefix else text
    errors = _too_long(text, 63)
    if not re.fullmatch(_LABEL_1035, text, re.ASCII):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, _LABEL_1035, "my-name", "abc-123"))
    return errors


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    errors: list[str] = []
    name = text
    label_message = (
        "must consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    if len(parts) == 2:
        prefix, name = parts
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {error}" for error in dns_subdomain_errors(prefix)]
    elif len(parts) > 2:
        wrong = _regex_error(f"a valid label key {label_message}", _QUALIFIED, "MyName", "my.name", "123-abc")
        return [f"{wrong} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if not name:
        errors.append("name part must be non-empty")
    elif _too_long(name, 63):
        errors += [f"name part {error}" for error in _too_long(name, 63)]
    if not re.fullmatch(_QUALIFIED, name, re.ASCII):
        errors.append("name part " + _regex_error(label_message, _QUALIFIED, "MyName", "my.name", "123-abc"))
    return errors


def _label_value(text: str) -> list[str]:
    pattern = f"({_QUALIFIED})?"
    errors = _too_long(text, 63)
    if not re.fullmatch(pattern, text, re.ASCII):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, pattern, "MyValue", "my_value", "12345"))
    return errors


def _uri(text: str) -> list[str]:
    wrong = request_uri_error(text)
    return [wrong] if wrong is not None else []


def _matching(check: Callable[[str], bool], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if check(text) else [message]


_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_BYTE: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATETIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[tT](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|[+-]\d\d:\d\d)", re.ASCII
)


def _is_date(text: str) -> bool:
    return bool(_DATE.fullmatch(text)) and parse_timestamp(f"{text}T00:00:00Z") is not None


def _is_datetime(text: str) -> bool:
    match = _DATETIME.fullmatch(text)
    return (
        match is not None
        and _is_date(text[:10])
        and int(match[4]) <= 23
        and int(match[5]) <= 59
        and int(match[6]) <= 59
    )


class NamedFormat(Opaque):
    """A named format; ``regex_size`` is the size by which a validation is charged."""

    __slots__ = ("name", "regex_size", "validate")
    type_name = "kubernetes.NamedFormat"

    def __init__(self, name: str, validate: Callable[[str], list[str]], regex_size: int) -> None:
        self.name, self.validate, self.regex_size = name, validate, regex_size

    def same(self, other: CELValue) -> bool:
        """Return True if both are the same format."""
        return bool(self.name == other.name)

    def __str__(self) -> str:
        return self.name


FORMATS: Final[dict[str, NamedFormat]] = {
    "dns1123Label": NamedFormat("DNS1123Label", dns_label_errors, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", dns_subdomain_errors, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _dns1035, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", lambda s: dns_label_errors(s, prefix=True), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", lambda s: dns_subdomain_errors(s, prefix=True), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", lambda s: _dns1035(s, prefix=True), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _matching(lambda s: bool(_UUID.fullmatch(s)), "does not match the UUID format"), 72),
    "byte": NamedFormat("byte", _matching(lambda s: bool(_BYTE.fullmatch(s)), "invalid base64"), 84),
    "date": NamedFormat("date", _matching(_is_date, "invalid date"), 72),
    "datetime": NamedFormat("datetime", _matching(_is_datetime, "invalid datetime"), 72),
}


def _named(name: CELValue) -> Optional:
    found = FORMATS.get(name)
    return Optional(found) if found is not None else NONE


def _validate(form: CELValue, text: CELValue) -> Optional | Failure:
    errors = form.validate(text)
    return Optional(errors) if errors else NONE


def _constant(form: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: form


def _validation(args: Sequence[CELValue], _: CELValue) -> int:
    return search(size(args[1]), args[0].regex_size) if isinstance(args[0], NamedFormat) else 1


def _estimated_validation(call: EstimatedCall) -> Estimate:
    return call.size(1).scaled(0.1).scaled(128 * 0.25), None


VALIDATED: Final = Cost(_validation, _estimated_validation, named=True)
"""A text is matched with the expression of a format, which has up to 128 characters by the estimate."""

OVERLOADS: Final[Functions] = {
    "validate": (declare("format-validate: Format., string -> optional(list(string))", _validate, VALIDATED),),
    "format.named": (declare("format-named: string -> optional(Format)", _named),),
} | {f"format.{name}": (declare(f"format.{name}: -> Format", _constant(form)),) for name, form in FORMATS.items()}
