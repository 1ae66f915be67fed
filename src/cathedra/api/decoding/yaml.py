"""YAML as Kubernetes reads it: the values that JSON has, within a budget.

Kubernetes turns YAML into JSON with the YAML 1.1 rules of Go's library, which differ from PyYAML's in what a plain word
is (``y`` is true, ``1:30`` and ``2024-01-01`` are texts, ``017`` is fifteen). So libyaml only parses here, and the
values are put together from its events without recursion, by the rules of Go's library, with its limit on aliases and
limits of our own on depth and on the number of nodes (docs/deviations.md).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from cathedra.api.decoding.reader import DecodeError
from cathedra.api.goquote import go_quote
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nesting import MAX_DEPTH

NODE_LIMIT: Final = 400_000
"""Scalars, lists and maps of a document, those that aliases repeat included: about two seconds of work."""
_TEXT_LIMIT: Final = 16 * 1024 * 1024
"""Letters of a document's scalars, those that aliases repeat included."""
_TOO_MANY_ALIASES: Final = "yaml: document contains excessive aliasing"
_REPETITIONS: Final = 1000
"""Number of repeated keys that are reported at most."""
_TOO_DEEP: Final = f"yaml: exceeded max depth of {MAX_DEPTH}"
_PARSER_TOO_DEEP: Final = "exceeded maximum nesting depth"
"""Text of libyaml for a document that exceeds its own depth limit, which it may raise before any event."""
_TAG: Final = "tag:yaml.org,2002:"
_MISSING: Final[Any] = object()


class YAMLDocument(msgspec.Struct, frozen=True):
    """The plain values of a document."""

    value: Any
    repeated: tuple[str, ...] = ()
    """Keys that occur twice, each as ``line 3: key "name" already set in map``."""


def read_yaml(body: bytes | str) -> YAMLDocument:
    """Return the first document of a YAML text; null if there is none.

    Raises:
        DecodeError: it is no YAML, has what JSON has not, or exceeds a limit.
    """
    return next(read_yaml_documents(body), YAMLDocument(None))


def read_yaml_documents(body: bytes | str, *, own: bool = False) -> Iterator[YAMLDocument]:
    """Yield every document of a YAML text. One of the user's ``own`` files may be of any length; aliases are bounded
    all the same.

    Raises:
        DecodeError: one is no YAML, has what JSON has not, or exceeds a limit; raised when it is reached.
    """
    # start-up time: most bodies are JSON
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    composer: _Composer | None = None
    try:
        for event in yaml.parse(body, Loader=loader):
            kind = type(event)
            if kind is yaml.DocumentStartEvent:
                composer = _Composer(own)
            elif kind is yaml.DocumentEndEvent and composer is not None:
                yield composer.document()
                composer = None
            elif composer is not None:
                composer.take(event, kind.__name__)
    except yaml.YAMLError as error:
        too_deep = getattr(error, "problem", None) == _PARSER_TOO_DEEP
        raise DecodeError(_TOO_DEEP if too_deep else _in_go_words(error)) from error
    except UnicodeError as error:
        raise DecodeError("yaml: invalid Unicode character") from error


def write_yaml(value: object, *, sort_keys: bool = True) -> bytes:
    """Return plain values as YAML; texts that Go's library would take for something else are quoted."""
    # start-up time: most answers are JSON
    import yaml

    text: str = yaml.dump(value, Dumper=_dumper(), allow_unicode=True, sort_keys=sort_keys)
    return text.encode()


@cache
def _dumper() -> Any:
    """Return a dumper that quotes texts that only Go's library reads otherwise: ``y`` and ``n``, ``1e3``, ``0o17``."""
    # start-up time: most answers are JSON
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    made: Any = type("Dumper", (base,), {})
    made.add_implicit_resolver(f"{_TAG}bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
    made.add_implicit_resolver(f"{_TAG}float", re.compile(f"(?:{_FLOAT.pattern})\\Z"), sorted(_NUMBER_STARTS))
    made.add_implicit_resolver(f"{_TAG}int", re.compile(r"[-+]?0[oO][0-7]+\Z"), list("-+0"))
    return made


def _in_go_words(error: Any) -> str:
    """Return a syntax error in the words of Go's library, which counts lines from 0 except in errors of the scanner."""
    marks = (getattr(error, "problem_mark", None), getattr(error, "context_mark", None))
    line = next((mark.line for mark in marks if mark is not None and mark.line), 0)
    if line and marks[0] is not None and marks[0].line and type(error).__name__ == "ScannerError":
        line += 1
    problem = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or "unknown problem parsing YAML content"
    )
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


class _Node(msgspec.Struct):
    """A value with the cost of repeating it."""

    value: Any
    nodes: int = 1
    letters: int = 0
    is_open: bool = False
    """True if it is a container whose end has not come: an alias within would contain itself."""


class _Container(msgspec.Struct):
    """A list or map that is being filled."""

    node: _Node
    line: int
    key: Any = _MISSING
    merging: bool = False
    merges: list[_Node] | None = None
    """The items of a list that stands for a merge key's value."""


class _Composer(msgspec.Struct):
    """Puts one document together."""

    _own: bool = False
    _root: _Node | None = None
    _stack: list[_Container] = msgspec.field(default_factory=list)
    _anchors: dict[str, _Node] = msgspec.field(default_factory=dict)
    _nodes: int = 0
    _aliased: int = 0
    _letters: int = 0
    _repeated: list[str] = msgspec.field(default_factory=list)

    def document(self) -> YAMLDocument:
        """Return the value of the document."""
        value = None if self._root is None else self._root.value
        if self._aliased:
            # What an alias repeats is one object so far; values that get changed must not be shared.
            value = msgspec.json.decode(msgspec.json.encode(value))
        return YAMLDocument(value, tuple(self._repeated))

    def take(self, event: Any, kind: str) -> None:
        """Enter one event.

        Raises:
            DecodeError: it cannot be entered.
        """
        if kind == "ScalarEvent":
            node = _Node(_scalar(event), letters=len(event.value))
            self._counted(node, 1)
            self._anchored(event, node)
            self._enter(node, event.start_mark.line, is_merge=event.value == "<<" and _is_merge(event))
        elif kind == "AliasEvent":
            self._enter(self._alias(event.anchor), event.start_mark.line)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            if len(self._stack) >= MAX_DEPTH:
                raise DecodeError(_TOO_DEEP)
            node = _Node([] if kind == "SequenceStartEvent" else {}, is_open=True)
            self._counted(node, 1)
            self._anchored(event, node)
            merges: list[_Node] | None = [] if self._stack and self._stack[-1].merging and node.value == [] else None
            self._stack.append(_Container(node, event.start_mark.line, merges=merges))
        else:
            container = self._stack.pop()
            container.node.is_open = False
            if container.merges is not None:
                for merged in reversed(container.merges):
                    self._merge(self._stack[-1], merged, container.line)
                self._stack[-1].merging = False
                return
            self._enter(container.node, container.line)

    def _anchored(self, event: Any, node: _Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _counted(self, node: _Node, nodes: int) -> None:
        self._nodes += nodes
        if self._own and not self._aliased:
            return
        self._letters += node.letters
        if (self._aliased if self._own else self._nodes) > NODE_LIMIT:
            raise DecodeError(
                _TOO_MANY_ALIASES if self._aliased else f"yaml: document has more than {NODE_LIMIT} nodes"
            )
        if self._letters > _TEXT_LIMIT:
            raise DecodeError(_TOO_MANY_ALIASES)

    def _alias(self, name: str) -> _Node:
        node = self._anchors.get(name)
        if node is None:
            raise DecodeError(f"yaml: unknown anchor '{name}' referenced")
        if node.is_open:
            raise DecodeError(f"yaml: anchor '{name}' value contains itself")
        self._aliased += node.nodes
        self._counted(node, node.nodes + 1)
        if self._aliased > 100 and self._nodes > 1000 and self._aliased / self._nodes > _alias_share(self._nodes):
            raise DecodeError(_TOO_MANY_ALIASES)
        return _Node(node.value, node.nodes + 1, node.letters)

    def _enter(self, node: _Node, line: int, *, is_merge: bool = False) -> None:
        if not self._stack:
            self._root = node
            return
        container = self._stack[-1]
        holder = container.node
        holder.nodes += node.nodes
        holder.letters += node.letters
        if container.merges is not None:
            container.merges.append(node)
        elif isinstance(holder.value, list):
            holder.value.append(node.value)
        elif container.merging:
            self._merge(container, node, line)
            container.merging = False
        elif container.key is not _MISSING:
            self._set(holder.value, container.key, node.value, line)
            container.key = _MISSING
        elif is_merge:
            container.merging = True
        else:
            if isinstance(node.value, (dict, list)):
                raise DecodeError(f"yaml: invalid map key: {_go_syntax(node.value)}")
            container.key = node.value

    def _merge(self, container: _Container, node: _Node, line: int) -> None:
        if not isinstance(node.value, dict):
            raise DecodeError("yaml: map merge requires map or sequence of maps as the value")
        for key, value in node.value.items():
            self._set(container.node.value, key, value, line)

    def _set(self, values: JSONObject, key: Any, value: Any, line: int) -> None:
        name = _key(key, value)
        if name in values and len(self._repeated) < _REPETITIONS:
            self._repeated.append(f"line {line + 1}: key {_go_syntax(key)} already set in map")
        values[name] = value


def _alias_share(nodes: int) -> float:
    """Return the share of the nodes that may come from aliases: nearly all of a small document, a tenth of a huge
    one."""
    low, high = 400_000, 4_000_000
    return 0.99 - 0.89 * min(max(nodes - low, 0) / (high - low), 1.0)


# --- scalars

_WORDS: Final[JSONObject] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|0[bB](?P<bin>[01]{1,64})|0[oO]?(?P<oct>[0-7]{1,22})"
    r"|(?P<dec>0|[1-9][0-9]{0,19}))",
    re.ASCII,
)
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_RESOLVED: Final = frozenset(("str", "bool", "int", "float", "null", "timestamp"))
_LONGEST_FLOAT: Final = 4096


def _is_merge(event: Any) -> bool:
    return bool(event.implicit[0]) or event.tag == f"{_TAG}merge"


def _scalar(event: Any) -> Any:
    text: str = event.value
    tag: str | None = event.tag
    if tag is None:
        return _plain(text) if event.implicit[0] else text
    short = tag.removeprefix(_TAG)
    if short == "binary" and tag != short:
        try:
            return base64.b64decode(text.encode(), validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            raise DecodeError("yaml: !!binary value contains invalid base64 data") from None
    if tag == short or short not in _RESOLVED or short == "str":
        return text
    value = _plain(text)
    found = _tag_of(value)
    if short == "float" and found == "int":
        return value
    if short not in (found, "timestamp"):
        raise DecodeError(f"yaml: cannot decode !!{found} `{text}` as a !!{short}")
    return value


def _tag_of(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "bool", int: "int", float: "float"}.get(type(value), "str")


def _plain(text: str) -> Any:
    """Resolve a plain scalar."""
    if text in _WORDS:
        return _finite(_WORDS[text])
    if text[0] not in _NUMBER_STARTS:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if found := _INTEGER.fullmatch(digits):
        base = found.lastgroup or "dec"
        number = int(found[base], _BASES[base])
        if number < 2**63 or (number < 2**64 and not found["sign"]) or (number == 2**63 and found["sign"] == "-"):
            return -number if found["sign"] == "-" else number
    if len(digits) > _LONGEST_FLOAT or not _FLOAT.fullmatch(digits):
        return text
    fraction = float(digits)
    if math.isinf(fraction):
        return text
    return int(fraction) if fraction.is_integer() and abs(fraction) < 1e21 else fraction


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise DecodeError(f"json: unsupported value: {shown}")
    return value


def _key(key: Any, value: Any) -> str:
    """Return a map's key as the text that JSON has.

    Raises:
        DecodeError: keys of its type are not supported.
    """
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and key < 2**63:
        return str(key)
    if isinstance(key, float):
        return _short_float(key)
    kind = "%!s(<nil>)" if key is None else "uint64"
    raise DecodeError(f"Unsupported map key of type: {kind}, key: {_go_syntax(key)}, value: {_go_syntax(value)}")


def _short_float(value: float) -> str:
    """Return the shortest text of the same 32-bit number; ``.inf`` or ``-.inf`` if it is too large for 32 bits."""
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        return ".inf" if value > 0 else "-.inf"
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == single:
            break
    return text if "e" in text else f"{float(text):g}"


def _go_syntax(value: Any) -> str:
    """Return a value in Go's syntax. Long values are cut."""
    if isinstance(value, str):
        return go_quote(value[:256])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[interface {}]interface {}{…}" if value else "map[interface {}]interface {}{}"
    if isinstance(value, list):
        return "[]interface {}{…}" if value else "[]interface {}{}"
    if isinstance(value, int) and value >= 2**63:
        return hex(value)
    return "<nil>" if value is None else str(value)
