"""Errors that are one cause."""

from __future__ import annotations

from cathedra.insight.explanation.analysis import error_shape, holders_text


def test_errors_that_differ_in_the_device_alone_are_alike() -> None:
    text = "claim default/c, selector #0 on device gpu.example.com/n{}/gpu-0: CEL runtime error: no such key: x"
    assert error_shape(text.format(1)) == error_shape(text.format(2))
    assert error_shape(text.format(1)) != error_shape(text.format(1).replace("no such key: x", "no such key: y"))


# Small texts of which causes are made.


def test_those_that_hold_most_come_first() -> None:
    assert holders_text({}) == ""
    assert holders_text({"b": 1, "a": 1, "c": 3}).startswith("held by c (3), a")
    assert holders_text({f"h{number}": 1 for number in range(9)}).endswith("more")
