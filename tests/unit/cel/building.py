"""Devices, and expressions of all sorts, for the tests of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from cathedra.api.quantity import Quantity
from cathedra.cel.device import DeviceView

DRIVER = "gpu.example.com"
ATTRIBUTES = f'device.attributes["{DRIVER}"]'


@dataclass(frozen=True)
class Attribute:
    """An attribute of a slice's device."""

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
    """A capacity of a slice's device."""

    value: Quantity


def attribute(value: Any) -> Attribute:
    """An attribute of the kind that ``value`` is; ``v…`` makes a version."""
    if isinstance(value, tuple):
        kind = {bool: "bools", int: "ints", str: "strings"}[type(value[0])]
        return Attribute(**{kind: value})
    if isinstance(value, bool):
        return Attribute(bool_=value)
    if isinstance(value, int):
        return Attribute(int_=value)
    return Attribute(version=value[1:]) if value.startswith("v") else Attribute(string=value)


def view(attributes: dict[str, Any] | None = None, *, shared: bool = False, **capacity: str) -> DeviceView:
    """A device of `DRIVER`; capacities by keyword."""
    given = {"model": "a100", "index": 5, "ready": True, "version": "v1.2.3"} if attributes is None else attributes
    held = {name: Capacity(Quantity(text)) for name, text in (capacity or {"memory": "40Gi"}).items()}
    return DeviceView.of(DRIVER, shared, {name: attribute(value) for name, value in given.items()}, held)


# --- expressions by type, some of which fail

_texts = st.sampled_from(["", "a", "a100", "h100", "1.2.3", "héllo", "true", "5"])
_numbers = st.integers(-3, 9) | st.sampled_from([2**63 - 1, -(2**63), 2**53, 2**53 + 1])
_ids = st.sampled_from(["model", "index", "ready", "version", "missing", "peers"])


def _quoted(text: str) -> str:
    return f'"{text}"'


unknowns = _ids.map(lambda name: f"{ATTRIBUTES}.{name}") | _ids.map(lambda name: f'{ATTRIBUTES}["{name}"]')
optionals = _ids.map(lambda name: f"{ATTRIBUTES}.?{name}") | _ids.map(lambda n: f'device.attributes["x"][?"{n}"]')
strings = _texts.map(_quoted) | st.just("device.driver")
integers = _numbers.map(lambda n: str(n) if n >= 0 else f"({n})") | st.just("size(device.driver)")
_operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def _between(left: st.SearchStrategy[str], right: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda a, op, b: f"{a} {op} {b}", left, _operators, right)


_leaves = st.one_of(
    st.sampled_from(["true", "false", "device.allowMultipleAllocations"]),
    _between(strings, strings),
    _between(integers, integers),
    _between(unknowns, strings),
    _between(unknowns, integers),
    _between(strings, unknowns),
    _between(unknowns, unknowns),
    st.builds(lambda a, b: f"{a} == {b}", unknowns, st.sampled_from(["true", "false", "null", "1.5", "5u", "[1, 5]"])),
    st.builds(lambda a: f'{a} in ["a100", "b", "5"]', unknowns | strings),
    st.builds(lambda a: f"{a} in [1, 5, 7]", unknowns | integers),
    st.builds(lambda a: f"dyn({a}) in [dyn(1), dyn(5u), dyn(true)]", unknowns),
    st.builds(lambda a: f"has({ATTRIBUTES}.{a})", _ids),
    st.builds(lambda a: f'"{a}" in {ATTRIBUTES}', _ids),
    st.builds(lambda a, b: f"{a}.orValue({b})", optionals, st.sampled_from(["true", "1", '"a100"'])),
    st.builds(lambda a: f"{a}.hasValue()", optionals),
    st.builds(lambda a, b: f"{a}.optMap(v, v == {b}).orValue(false)", optionals, strings | integers),
    st.builds(lambda a, b: f"{a}.startsWith({b})", unknowns | strings, strings),
    st.builds(lambda a, b: f"{a}.contains({b})", strings, strings),
    st.builds(lambda a, b: f"{a}.compareTo(semver({b})) >= 0", unknowns, strings),
    st.builds(
        lambda name, text: f'device.capacity["{DRIVER}"].{name}.isGreaterThan(quantity("{text}"))',
        st.sampled_from(["memory", "missing"]),
        st.sampled_from(["1Gi", "80Gi", "40Gi", "bad"]),
    ),
    st.builds(lambda a, b: f"{a} + {b} > 3", integers, integers),
    st.builds(lambda a, b: f"{a} / {b} == 1", integers, integers),
    unknowns.map(lambda a: f"bool({a})"),
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda a, b: f"({a} && {b})", inner, inner),
        st.builds(lambda a, b: f"({a} || {b})", inner, inner),
        st.builds(lambda a: f"!({a})", inner),
        st.builds(lambda a, b, c: f"({a} ? {b} : {c})", inner, inner, inner),
        st.builds(lambda a: f"[1, 5, 9].exists(x, {a} || x > 4)", inner),
        st.builds(lambda a: f"{ATTRIBUTES}.all(k, {a} || k.size() > 5)", inner),
        st.builds(lambda a: f"[1, 2, 3].filter(x, {a} && x > 1).size() == 2", inner),
        st.builds(lambda a: f"[1, 2].map(x, {a} ? x : x + 1).exists_one(x, x == 2)", inner),
        st.builds(lambda a, b: f"cel.bind(b, {a}, b || {b})", inner, inner),
    )


selectors = st.recursive(_leaves, _grown, max_leaves=6)
"""Boolean expressions over a device; many fail, in all the ways they can."""

devices = st.builds(
    lambda attributes, shared: view(attributes, shared=shared),
    st.fixed_dictionaries(
        {},
        optional={
            "model": st.sampled_from(["a100", "h100", "", "5", "true"]),
            "index": st.sampled_from([0, 1, 5, 2**53, -1]) | st.just(True),
            "ready": st.booleans() | st.just("true"),
            "version": st.sampled_from(["v1.2.3", "v1.3.0-rc.1", "1.2.3"]),
            "peers": st.sampled_from(["", "a", 7]),
        },
    ),
    st.booleans(),
)

# --- anything

_tokens = st.sampled_from(
    ["a", "b", "1", "2.5", "3u", "'s'", "b'q'", "true", "null", "in", "if",
     "(", ")", "[", "]", "{", "}", ".", ",", "-",
     "!", "?", ":", "+", "*", "==", "<", "&&", "||", "`e`", "@", "'", '"', "&", "f(", "has(", ".?b", "[?0]", "--", "\n",
     "device", ".attributes", "['d']", ".all(x,", ".map(", "cel.bind(", "m{f:", "//", "\x00", "é", "9" * 30, "r'",
     "'''"]
)  # fmt: skip
nonsense = st.lists(_tokens, max_size=12).map(" ".join) | st.lists(_tokens, max_size=12).map("".join) | st.text()
"""Texts that are hardly ever correct."""
