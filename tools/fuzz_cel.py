"""Fuzzing of CEL: no text may raise anything but the package's own errors, or change its meaning on the way.

Every input is read as an expression of a device selector, or as a ValidatingAdmissionPolicy's, and taken all the way:
parse, check, estimate, compile, evaluate both ways, explain. Held against each other: compiled code and the counting
evaluator; what is printed of a tree and what is parsed of that. Inputs are raw text or are grown from a table of tokens
and templates, so that deep parts are reached as well; the bytes of an input are the decisions by which it grows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cathedra.api.quantity import Quantity
from cathedra.cel.admission import Input, compile_policy
from cathedra.cel.device import DeviceView, environment
from cathedra.cel.errors import CompileError
from cathedra.cel.evaluation import compiler
from cathedra.cel.selector import CompiledSelector, compile_selector, validate_selector
from cathedra.cel.syntax import parser
from tools import celprinter
from tools.fuzzing import Layer
from tools.recorded import recorded

__all__ = ["NAMES", "Difference", "layer"]

TOKENS = (
    "a", "x", "device", ".driver", ".attributes", '["d"]', ".capacity", ".allowMultipleAllocations", ".model",
    ".index", ".version", ".ready", ".peers", ".?model", '[?"model"]', ".orValue(", ".hasValue()", ".value()",
    ".optMap(v, ", "1", "0", "2", "-1", "3u", "1.5", "9223372036854775807", "18446744073709551615u", "1e308", "'a'",
    '"1.2.3"', "b'q'", "true", "false", "null", "(", ")", "[", "]", "{", "}", ", ", ": ", " ? ", " + ", " - ", " * ",
    " / ", " % ", " == ", " != ", " < ", " <= ", " > ", " >= ", " && ", " || ", " in ", "!", "-", "has(",
    "cel.bind(a, ", ".all(x, ", ".exists(k, v, ", ".exists_one(x, ", ".map(x, ", ".filter(x, ",
    ".transformList(i, v, ", ".transformMap(k, v, ", ".size()", "size(", "int(", "uint(", "double(", "string(",
    "bool(", "bytes(", "type(", "dyn(", "duration(", "timestamp(", "semver(", "quantity(", "ip(", "cidr(", "url(",
    ".compareTo(", ".isGreaterThan(", ".matches(", ".find(", ".findAll(", ".replace(", ".split(", ".join(",
    ".format(", ".substring(", ".charAt(", ".indexOf(", ".lowerAscii()", ".sort()", ".sum()", ".min()", ".max()",
    ".distinct()", ".flatten(", ".slice(", ".reverse()", ".sortBy(x, ", "lists.range(", "sets.contains(",
    "format.dns1123Label()", ".validate(", ".getHours(", ".first()", ".includes(", ".containsIP(", ".getQuery()",
    "optional.of(", "optional.none()", "google.protobuf.Value{}", "\n", "//", "'%s %d %.3f'", "'10.0.0.0/8'",
    "'2024-01-01T00:00:00Z'", "'1h30m'", "'(a+'", "'16Gi'", "`", "@", "\\",
)  # fmt: skip


TEMPLATES = (
    "{} && {}", "{} || {}", "!{}", "-{}", "({} ? {} : {})", "({} + {})", "({} - {})", "({} * {})", "({} / {})",
    "({} % {})", "({} == {})", "({} != {})", "({} < {})", "({} >= {})", "({} in {})", "[{}, {}]", "[{}, ?{}]",
    "{{{}: {}}}", "{}[{}]", "{}[?{}]", "{}.?model", "{}.index", "has({}.model)", "dyn({})", "size({})", "type({})",
    "int({})", "uint({})", "double({})", "string({})", "bool({})", "bytes({})", "duration({})", "timestamp({})",
    "cel.bind(x, {}, {})", "{}.all(x, {})", "{}.exists(x, {})", "{}.exists(x, y, {})", "{}.exists_one(x, {})",
    "{}.map(x, {})", "{}.map(x, {}, {})", "{}.filter(x, {})", "{}.transformList(x, y, {})",
    "{}.transformMap(x, y, {})", "{}.transformMapEntry(x, y, {})", "{}.optMap(x, {})", "{}.optFlatMap(x, {})",
    "{}.orValue({})", "{}.or({})", "{}.value()", "{}.hasValue()", "optional.of({})", "optional.ofNonZeroValue({})",
    "{}.unwrapOpt()", "{}.contains({})", "{}.startsWith({})", "{}.endsWith({})", "{}.matches({})", "{}.find({})",
    "{}.findAll({}, {})", "{}.replace({}, {}, {})", "{}.split({}, {})", "{}.join({})", "{}.substring({}, {})",
    "{}.charAt({})", "{}.indexOf({})", "{}.lastIndexOf({}, {})", "{}.lowerAscii()", "{}.trim()",
    "{}.format([{}, {}])", "strings.quote({})", "{}.isSorted()", "{}.sum()", "{}.min()", "{}.max()",
    "{}.includes({})", "{}.slice({}, {})", "{}.flatten({})", "lists.range({})", "{}.distinct()", "{}.reverse()",
    "{}.sort()", "{}.sortBy(x, {})", "{}.first()", "{}.last()", "sets.contains({}, {})", "sets.equivalent({}, {})",
    "sets.intersects({}, {})", "quantity({})", "isQuantity({})", "{}.compareTo({})", "{}.isGreaterThan({})",
    "{}.add({})", "{}.sub({})", "{}.asInteger()", "{}.asApproximateFloat()", "sign({})", "semver({}, {})",
    "{}.major()", "url({})", "isURL({})", "{}.getQuery()", "{}.getPort()", "ip({})", "isIP({})", "{}.family()",
    "{}.isGlobalUnicast()", "cidr({})", "{}.containsIP({})", "{}.containsCIDR({})", "{}.masked()",
    "{}.prefixLength()", "format.named({})", "{}.validate({})", "{}.getFullYear({})", "{}.getHours()",
    "{}.getMilliseconds()", "google.protobuf.Struct{{fields: {}}}",
)  # fmt: skip
LEAVES = (
    "device", "device.driver", "device.attributes", 'device.attributes["d"]', 'device.attributes["d"].version', "x",
    "y", 'device.attributes["d"].peers', 'device.attributes["d"].index', 'device.capacity["d"].memory', "true",
    "false", "null", "0", "1", "-1", "2u", "1.5", "-9223372036854775808", "18446744073709551615u", "1e308", "[]",
    "{}", "''", "'a'", "'1.2.3'", "b'a'", "'%s %d %.3f %x'", "'10.0.0.0/8'", "'::1'", "'2024-01-01T00:00:00Z'",
    "'1h30m'", "'(a+)'", "'16Gi'", "'https://u@h:1/p?q=1#f'", "duration('1s')", "timestamp(0)", "semver('1.2.3')",
    "quantity('1Gi')", "ip('10.0.0.1')", "cidr('10.0.0.0/8')", "url('/a')", "optional.none()", "optional.of(1)",
    "format.uri()", "[1, 2]", "{'a': 1}", "int",
)  # fmt: skip


@dataclass(frozen=True)
class Attribute:
    """A device attribute."""

    int_: int | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Capacity:
    """A device capacity."""

    value: Quantity


DEVICE = DeviceView.of(
    "d",
    True,
    {
        "model": Attribute(string="a"),
        "index": Attribute(int_=5),
        "ready": Attribute(bool_=True),
        "version": Attribute(version="1.2.3"),
        "peers": Attribute(ints=(1, 2, 3)),
    },
    {"memory": Capacity(Quantity("40Gi"))},
)
ENVIRONMENT = environment(consumable_capacity=True, list_attributes=True, mode="stored")
REQUEST = {
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "operation": "CREATE",
    "name": "p",
    "userInfo": {"username": "u"},
}
POD = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "n": 1}]}}


class Decisions:
    """The bytes of an input, taken as decisions; when they are used up, every decision is the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0

    def number(self, most: int) -> int:
        """From 0 to ``most``."""
        byte = self._data[self._next] if self._next < len(self._data) else 0
        self._next += 1
        return byte % (most + 1)

    def rest(self, most: int) -> str:
        """Return the rest as text."""
        return self._data[self._next : self._next + most].decode("utf-8", "replace")


class Difference(Exception):
    """Two ways to the same answer have led to different ones."""


def expression_of(data: Decisions) -> str:
    """Raw text, a row of tokens, or a correct expression grown from templates."""
    kind = data.number(4)
    if kind == 0:
        return data.rest(400)
    if kind > 1:
        return grown(data, 5)
    count = 1 + data.number(39)
    return "".join(TOKENS[data.number(len(TOKENS) - 1)] for _ in range(count))


def grown(data: Decisions, depth: int) -> str:
    """A template with its holes filled."""
    if depth == 0 or data.number(3) == 0:
        return LEAVES[data.number(len(LEAVES) - 1)]
    template = TEMPLATES[data.number(len(TEMPLATES) - 1)]
    holes = template.replace("{{", "").replace("}}", "").count("{}")
    return template.format(*(_hidden(data, grown(data, depth - 1)) for _ in range(holes)))


def _hidden(data: Decisions, inner: str) -> str:
    """Often behind ``dyn``: then the checker lets it pass, and the evaluation has to cope."""
    return f"dyn({inner})" if data.number(2) else inner


def shape(source: str) -> Any:
    """A tree without places, as text; None if the source is not correct."""
    try:
        return celprinter.show(parser.parse(source, {}))
    except parser.Invalid:
        return None


def compare_ways(selector: CompiledSelector) -> None:
    """Compiled code may hand over, but never answer otherwise."""
    counted = selector.outcome(DEVICE)
    code = compiler.selector_code(selector.program)
    if code is None or counted.error == "operation cancelled: actual cost limit exceeded":
        return
    try:
        answer = code(DEVICE)
    except compiler.UNUSUAL:
        return
    if counted.error is not None or answer is not counted.value:
        raise Difference(f"compiled: {answer!r}, counted: {counted.value!r} {counted.error!r}")


def take_grown(as_policy: bool, raw: bytes) -> None:
    """Everything that may be done with one grown expression."""
    take_text(as_policy, expression_of(Decisions(raw)))


def take_text(as_policy: bool, expression: str) -> None:
    """Everything that may be done with one text."""
    printed = shape(expression)
    if printed is not None and shape(printed) != printed:
        raise Difference(f"printed as {printed!r}, which reads differently")
    if as_policy:
        compile_policy({"validations": [{"expression": expression}]}).evaluate(Input(REQUEST, object=POD))
        return
    validate_selector(expression, list_attributes=True)
    try:
        selector = compile_selector(expression, list_attributes=True)
    except CompileError:
        return
    if selector.max_cost <= 10_000_000:
        compare_ways(selector)
    selector.explain(DEVICE)


def _take_bytes(as_policy: bool, raw: bytes) -> None:
    take_text(as_policy, raw.decode("utf-8", "replace"))


def _recorded_expressions() -> list[bytes]:
    found = (case.get("expression") for case in recorded("cel"))
    texts = sorted({one.encode("utf-8", "surrogatepass") for one in found if isinstance(one, str) and len(one) < 2_000})
    return random.Random(1).sample(texts, min(1_500, len(texts)))


def _random_decisions() -> list[bytes]:
    drawn = random.Random(1)
    return [drawn.randbytes(60) for _ in range(500)]


NAMES: Final = ("cel-selectors", "cel-policies", "cel-selector-text", "cel-policy-text")


def layer(name: str) -> Layer:
    """The layer of that name."""
    as_policy = "polic" in name
    if name.endswith("text"):
        return Layer(name, partial(_take_bytes, as_policy), _recorded_expressions)
    return Layer(name, partial(take_grown, as_policy), _random_decisions)
