"""Small texts of which causes are made."""

from __future__ import annotations

from cathedra.insight.explanation.funnels import holders_text
from cathedra.insight.rendering import counted, plural


def test_nouns_follow_their_number() -> None:
    assert [counted(1, "device"), counted(2, "device"), counted(2, "class"), counted(3, "capacity")] == [
        "1 device",
        "2 devices",
        "2 classes",
        "3 capacities",
    ]
    assert counted(12_000, "node") == "12,000 nodes"
    assert plural("pod") == "pods"


def test_those_that_hold_most_come_first() -> None:
    assert holders_text({}) == ""
    assert holders_text({"b": 1, "a": 1, "c": 3}).startswith("held by c (3), a")
    assert holders_text({f"h{number}": 1 for number in range(9)}).endswith("more")
