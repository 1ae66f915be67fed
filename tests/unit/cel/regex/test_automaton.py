"""The automaton in Python: linear time and bounded memory."""

from __future__ import annotations

from cathedra.cel.regex.automaton import PythonRegex


def test_a_pattern_that_takes_exponential_time_elsewhere_visits_each_character_once() -> None:
    compiled = PythonRegex("(a|aa)*(a*)*b")
    assert not compiled.matches("a" * 50_000)
    # the states, and so the walks over the program, do not depend on the length of the text
    assert len(compiled._forward._states) < 10


def test_the_number_of_states_is_bounded() -> None:
    compiled = PythonRegex("(a|b)*a(a|b){16}c")
    text = "".join("ab"[(number * number // 7) % 2] for number in range(20_000))
    assert not compiled.matches(text)
    assert len(compiled._forward._states) <= 4000
