"""What of a container survives its shim."""

from __future__ import annotations

import json
from pathlib import Path

from cathedra.node.shim.container import ShimContainer


def test_a_container_is_held_also_where_nothing_can_be_written_any_more(tmp_path: Path) -> None:
    container = ShimContainer("c", {"kind": "process", "label": ""}, tmp_path / "gone")
    container.save()
    assert not (tmp_path / "gone").exists()


def test_what_a_later_shim_has_to_know_is_on_disk(tmp_path: Path) -> None:
    container = ShimContainer("c", {"kind": "process", "label": "x"}, tmp_path)
    container.started_at = 17.0
    container.note_lost(23.0)
    container.save()
    content = json.loads((tmp_path / "container.json").read_text())
    assert (content["request"], content["started_at"]) == ({"kind": "process", "label": "x"}, 17.0)
    assert (content["exit"]["code"], content["exit"]["reason"]) == (137, "ContainerStatusUnknown")
    assert content["exit"]["finished_at"] == 23.0
