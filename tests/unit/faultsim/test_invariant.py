"""The base of invariants: it checks nothing, and its violation names the class."""

from __future__ import annotations

from cathedra.faultsim.invariant import Invariant
from tests.unit.faultsim.builders import Story, pod


class Never(Invariant):
    """Holds always."""


def test_the_base_accepts_everything_and_names_its_violation() -> None:
    story = Story()
    check = Never(story.chronicle)
    story.write("pods", "p", pod(), check)
    check.settled()
    check.emptied()
    assert str(check.broken("text")) == "Never: text"
