"""Names that expressions may use."""

from __future__ import annotations

from cathedra.cel.checking import types
from cathedra.cel.environment import Environment


def test_an_extended_environment_has_more_and_leaves_the_first_alone() -> None:
    first = Environment(variables={"a": types.INT})
    more = first.extend({"b": types.STRING}, {"My.Object": {"field": types.BOOL}})
    assert set(more.variables) == {"a", "b"}
    assert set(first.variables) == {"a"}
    assert "My.Object" in more.type_names


def test_candidates_go_from_the_container_outwards() -> None:
    inside = Environment(container="a.b")
    assert list(inside.candidates("x.y")) == ["a.b.x.y", "a.x.y", "x.y"]
    assert list(inside.candidates(".x")) == ["x"]


def test_remembered_calls_are_bounded() -> None:
    environment = Environment()
    for number in range(5000):
        environment.remember(number, types.INT, (), 0)
    assert len(environment.resolutions) <= 4096
