"""Kind and apiVersion of a body, and their comparison with the request's address (docs/spec/apimachinery.md §1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from cathedra.api.decoding.reader import DecodeError, Number, Pairs, parse, well_formed
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nesting import NestingError, check_nesting
from cathedra.api.scheme import GroupVersionKind

_SHOWN: Final = 30
_SCHEME: Final = 'scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class Envelope(msgspec.Struct, frozen=True):
    """Kind and apiVersion in the body; empty if missing."""

    api_version: str
    kind: str

    def check(self, expected: GroupVersionKind, is_registered: Callable[[GroupVersionKind], bool]) -> None:
        """Check that the body has the kind and version of its address, and take missing ones from the address.

        Raises: DecodeError: they differ; the text is a complete message.
        """
        api_version = self.api_version or expected.api_version
        kind = self.kind or expected.kind
        if api_version == expected.api_version and kind == expected.kind:
            return
        found = GroupVersionKind.parse(api_version, kind)
        prefix = f'{kind} in version "{found.version}" cannot be handled as a {expected.kind}'
        if not is_registered(found):
            raise DecodeError(f'{prefix}: no kind "{kind}" is registered for version "{api_version}" in {_SCHEME}')
        if kind == expected.kind and found.group == expected.group:
            raise DecodeError(
                f"the API version in the data ({api_version}) does not match "
                f"the expected API version ({expected.api_version})"
            )
        internal = expected.group.partition(".")[0] or "core"
        raise DecodeError(
            f"{prefix}: converting ({found.version}.{kind}) to ({internal}.{expected.kind}): unknown conversion"
        )


def read_envelope(body: bytes, expected_kind: str) -> Envelope:
    """Return kind and apiVersion of the JSON body of an object.

    Raises: DecodeError: the body is no JSON object, or they are no texts; the text is a complete message.
    """
    try:
        return envelope_of(body)
    except DecodeError as error:
        raise DecodeError(
            f"the object provided is unrecognized (must be of type {expected_kind}): {error} ({shown_body(body)})"
        ) from None


def envelope_of(body: bytes) -> Envelope:
    """Return kind and apiVersion of any JSON body.

    Raises:
        DecodeError: the body is no JSON object, or they are no texts.
    """
    try:
        check_nesting(body)
        head = _DECODER.decode(well_formed(body))
        if head is None:
            return Envelope("", "")
        api_version = head.api_version or ""
        if api_version.count("/") <= 1:
            return Envelope(api_version, head.kind or "")
        problem = f"unexpected GroupVersion string: {api_version}"
    except NestingError as error:
        problem = f"couldn't get version/kind; json parse error: {error}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = f"couldn't get version/kind; json parse error: {_problem(body)}"
    raise DecodeError(problem)


class _EnvelopeHead(msgspec.Struct, rename={"api_version": "apiVersion"}):
    api_version: str | None = None
    kind: str | None = None


_DECODER: Final[msgspec.json.Decoder[_EnvelopeHead | None]] = msgspec.json.Decoder(_EnvelopeHead | None)


def _problem(body: bytes) -> str:
    try:
        value = parse(body.decode(errors="replace"))
    except DecodeError as error:
        return str(error)
    kinds: dict[type, str] = {list: "array", str: "string", bool: "bool", Number: "number", Pairs: "object"}
    if not isinstance(value, Pairs):
        return f"json: cannot unmarshal {kinds.get(type(value), 'null')} into Go value of type {_TYPE_META}"
    fields: JSONObject = dict(value)
    for name in ("apiVersion", "kind"):
        found = fields.get(name)
        if found is not None and type(found) is not str:
            return f"json: cannot unmarshal {kinds[type(found)]} into Go struct field .{name} of type string"
    return "invalid body"


def shown_body(body: bytes) -> str:
    """Return the beginning of a body as errors show it: as text for a JSON object, else in hexadecimal."""
    if not body:
        return "<empty>"
    cut = body[:_SHOWN]
    more = " ..." if len(body) > _SHOWN else ""
    if body.lstrip()[:1] == b"{":
        return cut.decode(errors="replace") + more
    return cut.hex() + more
