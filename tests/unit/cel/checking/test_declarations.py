"""Signatures of functions."""

from __future__ import annotations

import pytest

from cathedra.cel.checking import declarations, types
from cathedra.cel.environment import BASE_LIBRARIES, Environment


def test_a_signature_is_read_from_its_line() -> None:
    overload = declarations.parse("list_first: list(T). -> optional(T)")
    assert overload.member
    assert overload.args == (types.list_of(types.param("T")),)
    assert overload.params == ("T",)


@pytest.mark.parametrize("library", sorted(declarations.LIBRARIES))
def test_all_declarations_can_be_read_and_ids_are_unique(library: str) -> None:
    overloads = [o for group in declarations.library(library).values() for o in group]
    assert len({(o.id, o.member) for o in overloads}) == len(overloads)


@pytest.mark.parametrize("name", ["math.greatest", "base64.encode", "cel.block", "isIPv4"])
def test_libraries_that_kubernetes_lacks_are_absent(name: str) -> None:
    assert name not in Environment(libraries=(*BASE_LIBRARIES, "bindings", "includes")).functions
