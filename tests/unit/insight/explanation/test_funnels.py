"""Small texts of which causes are made."""

from __future__ import annotations

from cathedra.insight.explanation.funnels import holders_text


def test_those_that_hold_most_come_first() -> None:
    assert holders_text({}) == ""
    assert holders_text({"b": 1, "a": 1, "c": 3}).startswith("held by c (3), a")
    assert holders_text({f"h{number}": 1 for number in range(9)}).endswith("more")
