"""Room for the deepest expression that is legal."""

from __future__ import annotations

import sys

from tests.unit.cel.asking import value


def test_legal_nesting_is_evaluated() -> None:
    assert value("(" * 120 + "1" + ")" * 120) == 1
    assert value("[" * 60 + "1" + "]" * 60 + "[0]" * 60) == 1


def test_the_recursion_limit_is_only_ever_raised() -> None:
    from cathedra.cel.depth import make_room

    before = sys.getrecursionlimit()
    make_room("a")
    assert sys.getrecursionlimit() >= before
