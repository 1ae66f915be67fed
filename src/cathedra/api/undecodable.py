"""Objects that a server shows and that cannot be decoded, with what can be read of them all the same.

A newer release may give a field another form, and anything may stand in a store that was written to by hand. A list or
a watch goes on without such an object. What decides about devices or running containers must not take it for absent,
and reads the rest of it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import Status
from cathedra.api.nesting import WRAPPED_DEPTH, NestingError, check_nesting
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, from_dict

S = TypeVar("S", bound=KubeStruct)

FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors that a decoder raises for JSON of another form than it expects."""
MOST_FAULTS: Final = 32
"""Values that `rest_of` leaves out of one object; an object with more of them is not read at all."""
MOST_BYTES: Final = 2 * 1024 * 1024
"""Bytes that `rest_of` decodes for one object, which it reads again for each fault: about 60 ms."""

_CUT_MARK: Final = '"\\u0000nested too deeply"'
"""Stands where `cut_at_depth` has left something out; no server writes a text with this character there."""
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_PATH: Final = re.compile(r" - at `(\$[^`]*)`\Z")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_ESCAPES: Final = re.compile(rb"(?:\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|(?:\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
"""Pairs of surrogates, halves of pairs, and all other escapes."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF: Final = len("\\ud800")
_Fields = dict[str, msgspec.Raw]


class NotAnObject(ValueError):
    """The bytes are no JSON object, so that not even its name can be read."""


class Undecodable(msgspec.Struct, frozen=True, eq=False, dict=True):
    """An object that exists and cannot be decoded."""

    kind: str
    namespace: str
    """«» also where it cannot be read."""
    name: str
    """«» where it cannot be read."""
    uid: str
    resource_version: str
    path: str
    """Path of the first fault, as ``spec.volumes[0].projected.sources``; empty if the decoder does not name it."""
    problem: str
    """The fault, in the decoder's words."""
    body: bytes
    """The object as JSON."""

    @property
    def key(self) -> tuple[str, str]:
        """Its key in a store: namespace and name, or a key of its own if the name cannot be read."""
        # The null character cannot occur in a name, so the key never collides with that of a readable object.
        return self.namespace, self.name or f"\0{self.uid or hash(self.body)}"

    @property
    def where(self) -> str:
        """Namespace and name, for texts."""
        name = self.name or "(no name)"
        return f"{self.namespace}/{name}" if self.namespace else name

    @cached_property
    def values(self) -> Mapping[str, Any] | None:
        """Return the object as plain values, without those nested too deeply; None if it is not readable."""
        found = _plain(self.body)
        return found if isinstance(found, dict) else None

    def mentions(self, uid: str) -> bool:
        """Return True if ``uid`` stands anywhere in the object, as that of an owner or a consumer does."""
        return bool(uid) and uid.encode() in self.body

    def same_state(self, other: Undecodable) -> bool:
        """Return True if both are the same state of one object."""
        if self.resource_version or other.resource_version:
            return self.resource_version == other.resource_version and self.uid == other.uid
        return self.body == other.body

    def __str__(self) -> str:
        at = f" at {self.path}" if self.path else ""
        return f"{self.kind} {self.where} cannot be decoded: {self.problem}{at}"


class UndecodableObject(StatusError):
    """The one object that was read, or that a write was answered with, cannot be decoded.

    A `StatusError`, so that whatever can do nothing about it treats it as any other answer that it cannot use. A write
    has been done all the same.
    """

    def __init__(self, what: Undecodable) -> None:
        self.what = what
        super().__init__(Status(status="Failure", code=500, reason="InternalError", message=str(what)))


def identify(kind: type[KubeStruct] | str, body: bytes, error: Exception) -> Undecodable:
    """Describe the object in ``body``, whose decoding raised ``error``.

    Raises:
        NotAnObject: it holds none.
    """
    try:
        fields = _fields(body)
    except FAULTS as fault:
        raise NotAnObject(f"no JSON object: {fault}") from error
    metadata: _Fields = {}
    if "metadata" in fields:
        try:
            metadata = _fields(bytes(fields["metadata"]))
        except FAULTS:
            metadata = {}  # as an object without a name
    path, problem = _fault(error)
    return Undecodable(
        kind=_text(fields, "kind") or (kind if isinstance(kind, str) else kind.__name__),
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        resource_version=_text(metadata, "resourceVersion"),
        path=path,
        problem=problem,
        body=body,
    )


def rest_of(kind: type[S], what: Undecodable) -> tuple[S | None, tuple[str, ...]]:
    """Return the object without the values that cannot be decoded, and the paths of these.

    A value in a map is left out together with its map, because the decoder does not name it. Of an object with
    too many faults nothing but the metadata is left; None if these cannot be read either.
    """
    values = _plain(what.body)  # of its own, for it is changed
    if not isinstance(values, dict):
        return None, ()
    # Each fault costs one more decoding of the whole object.
    most = min(MOST_FAULTS, max(MOST_BYTES // len(what.body), 1))
    paths: list[str] = []
    while len(paths) <= most:
        try:
            return from_dict(kind, values), tuple(paths)
        except msgspec.ValidationError as error:
            path, _ = _fault(error)
            # The decoder reports one fault at a time, so it is removed and the rest tried again.
            paths.append(path)
            if not path or not _leave_out(values, path):
                break
    rest = [name for name in values if name != "metadata"]
    try:
        return from_dict(kind, {"metadata": values.get("metadata") or {}}), (*paths, *rest)
    except msgspec.ValidationError:
        return None, (*paths, *rest)


def cut_at_depth(body: bytes, limit: int = WRAPPED_DEPTH) -> bytes:
    """Return the same JSON without what is nested more deeply than ``limit``, which `is_cut` recognises."""
    parts: list[bytes] = []
    depth, start = 0, 0
    for token in _TOKENS.finditer(body):
        match token.group():
            case b"{" | b"[":
                depth += 1
                # Counted by tokens instead of parsing: parsers refuse, or recurse into, exactly such bodies.
                if depth == limit + 1:
                    parts.append(body[start : token.start()])
            case b"}" | b"]":
                depth -= 1
                if depth == limit:
                    parts.append(_CUT_MARK.encode())
                    start = token.end()
    if depth <= limit:
        parts.append(body[start:])
    return b"".join(parts)


def readable(body: bytes) -> bytes:
    """Return the same JSON in a form that decoders take. As Go reads it, what is no UTF-8, and half of a surrogate
    pair, is U+FFFD; what is nested too deeply is left out (`is_cut`)."""
    # Go replaces broken UTF-8 the same way, so both show the same text.
    text = body.decode("utf-8", "replace").encode()
    if _SURROGATE.search(text):
        text = _ESCAPES.sub(_whole_escapes, text)
    try:
        check_nesting(text, WRAPPED_DEPTH)
    except NestingError:
        return cut_at_depth(text)
    return text


def is_cut(body: bytes) -> bool:
    """Return True if `cut_at_depth` has left something out."""
    return _CUT_MARK.encode() in body


def _whole_escapes(found: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if len(found[0]) == _HALF else found[0]


def _fault(error: Exception) -> tuple[str, str]:
    """Path and problem of a decoder's error."""
    text = str(error)
    found = _PATH.search(text)
    if found is None:
        return "", text or type(error).__name__
    return found[1].removeprefix("$").removeprefix("."), text[: found.start()]


def _fields(body: bytes) -> _Fields:
    return msgspec.json.decode(readable(body), type=_Fields)


def _plain(body: bytes) -> Any:
    text = readable(body)
    try:
        return msgspec.json.decode(text)
    except FAULTS:
        pass
    try:
        return json.loads(text)  # which takes numbers of any size
    except (ValueError, RecursionError):
        return None


def _text(fields: _Fields, name: str) -> str:
    try:
        return msgspec.json.decode(fields[name], type=str)
    except (KeyError, *FAULTS):
        return ""


def _leave_out(values: dict[str, Any], path: str) -> bool:
    """Remove the value at ``path``. Return False if there is none."""
    steps = [found[1] or found[2] for found in _STEP.finditer(f".{path}")]
    if "..." in steps:
        steps = steps[: steps.index("...")]
    at: Any = values
    try:
        for step in steps[:-1]:
            at = at[int(step)] if isinstance(at, list) else at[step]
        if isinstance(at, list):
            del at[int(steps[-1])]
        else:
            del at[steps[-1]]
    except (LookupError, TypeError, ValueError):
        return False
    return True
