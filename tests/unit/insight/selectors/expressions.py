"""Random selectors and devices, for properties of what is read off an expression."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from cathedra.api.resource import Device
from cathedra.api.struct import from_dict
from cathedra.cel import DeviceView
from cathedra.cel.program import Program
from cathedra.cel.selector import compile_selector

__all__ = ["CONDITIONS", "DEVICES", "SELECTORS", "compiled", "view_of"]

DRIVER = "d.example.com"
MAP = f'device.attributes["{DRIVER}"]'
NAMES = ("a", "b", "s", "t", "v")

CONDITIONS = st.one_of(
    st.builds(
        "{}.{} {} {}".format,
        st.just(MAP),
        st.sampled_from("ab"),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        st.integers(0, 4),
    ),
    st.builds(
        "{2} {1} {0}.{3}".format,
        st.just(MAP),
        st.sampled_from(["==", "<", ">="]),
        st.integers(0, 4),
        st.sampled_from("ab"),
    ),
    st.builds('{}.s {} "{}"'.format, st.just(MAP), st.sampled_from(["==", "!=", "<", ">="]), st.sampled_from("xyz")),
    st.builds("{}.s in {}".format, st.just(MAP), st.lists(st.sampled_from(["x", "y", "z"]), max_size=3)),
    st.builds("{}.t".format, st.just(MAP)),
    st.builds(
        '{}.v.{}(semver("{}.0.0"))'.format,
        st.just(MAP),
        st.sampled_from(["isGreaterThan", "isLessThan"]),
        st.integers(0, 3),
    ),
    st.builds(
        '{}.v.compareTo(semver("{}.0.0")) {} 0'.format,
        st.just(MAP),
        st.integers(0, 3),
        st.sampled_from(["==", "<", ">="]),
    ),
    st.builds(
        'device.capacity["{}"].m.compareTo(quantity("{}Gi")) {} 0'.format,
        st.just(DRIVER),
        st.integers(0, 3),
        st.sampled_from(["==", "<", "<=", ">", ">="]),
    ),
    st.builds('"{}" in {}'.format, st.sampled_from(NAMES), st.just(MAP)),
    st.builds("has({}.{})".format, st.just(MAP), st.sampled_from(NAMES)),
    st.builds("{}.?{}.hasValue()".format, st.just(MAP), st.sampled_from(NAMES)),
    st.builds("{}.?a.orValue(0) == {}".format, st.just(MAP), st.integers(0, 3)),
    st.sampled_from([f'device.driver == "{DRIVER}"', 'device.driver == "other"', "true", "false"]),
)


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds(lambda body: f"cel.bind(m, {MAP}, {body.replace(MAP, 'm')})", inner),
        st.builds("[1, 2].exists(i, i > 1 && {})".format, inner),
    )


SELECTORS = st.recursive(CONDITIONS, _joined, max_leaves=6)
DEVICES = st.fixed_dictionaries(
    {},
    optional={
        "a": st.builds(lambda n: {"int": n}, st.integers(0, 4)),
        "b": st.builds(lambda n: {"int": n}, st.integers(0, 4)),
        "s": st.builds(lambda s: {"string": s}, st.sampled_from("xyz")),
        "t": st.builds(lambda t: {"bool": t}, st.booleans()),
        "v": st.builds(lambda n: {"version": f"{n}.0.0"}, st.integers(0, 3)),
    },
)


def compiled(text: str) -> Program:
    """The selector, checked."""
    return compile_selector(text).program


def view_of(attributes: dict[str, Any], memory: int = 1) -> DeviceView:
    """Return a device with these attributes and a capacity in GiB."""
    values = {"name": "d", "attributes": attributes, "capacity": {"m": {"value": f"{memory}Gi"}}}
    device = from_dict(Device, values)
    return DeviceView.of(DRIVER, None, device.attributes, device.capacity)
