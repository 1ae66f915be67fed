"""Counts of things as people read them."""

from __future__ import annotations

from cathedra.cluster.views.wording import counted


def test_one_thing_is_no_plural() -> None:
    assert [counted(count, "node") for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
