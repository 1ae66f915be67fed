"""Taking over from a shim that died: what may have run is lost, what never ran is as if it had not been asked for."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from pathlib import Path
from typing import Any

from cathedra.node.faultpoints import FaultPoints
from cathedra.node.shim import kernel
from cathedra.node.shim.supervisor import ContainerSupervisor, ShimContainer


def left(directory: Path, name: str, *, started_at: float, exit_code: int | None = None, pid: int = 0) -> None:
    """A container as a shim that died left it."""
    (directory / name).mkdir()
    container = ShimContainer(name, {"kind": "process", "label": name}, directory / name)
    container.started_at, container.pid = started_at, pid
    if exit_code is not None:
        container.exit = {"code": exit_code, "signal": 0, "finished_at": 5.0, "reason": ""}
    container.save()


def recovered(directory: Path) -> dict[str, dict[str, Any]]:
    supervisor = ContainerSupervisor(directory, selectors.DefaultSelector(), lambda _: None, FaultPoints())
    supervisor.recover()
    return {container.id: container.public() for container in supervisor.containers}


def test_a_container_that_may_have_run_is_lost_and_an_ended_one_keeps_its_exit(tmp_path: Path) -> None:
    left(tmp_path, "ran", started_at=3.0)
    left(tmp_path, "ended", started_at=3.0, exit_code=7)
    found = recovered(tmp_path)
    assert (found["ran"]["exit"]["code"], found["ran"]["exit"]["reason"]) == (137, "ContainerStatusUnknown")
    assert found["ended"]["exit"]["code"] == 7
    assert json.loads((tmp_path / "ran" / "container.json").read_text())["exit"]["code"] == 137
    assert recovered(tmp_path) == found, "a second loss changes nothing"


def test_of_a_container_that_never_ran_nothing_is_left(tmp_path: Path) -> None:
    left(tmp_path, "created", started_at=0.0)
    (tmp_path / "described").mkdir()
    (tmp_path / "described" / "config.json").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "container.json").write_text("{")
    for own in ("rootfs", "runtime"):
        (tmp_path / own).mkdir()
    assert recovered(tmp_path) == {}
    assert sorted(os.listdir(tmp_path)) == ["rootfs", "runtime"]


def test_a_process_that_still_runs_is_killed_and_one_that_only_has_its_number_is_not(tmp_path: Path) -> None:
    orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        left(tmp_path, "orphan", started_at=3.0, pid=orphan.pid)
        left(tmp_path, "reused", started_at=3.0, pid=other.pid)
        path = tmp_path / "reused" / "container.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"start": "1"}))
        recovered(tmp_path)
        assert orphan.wait(120) == -9
        assert other.poll() is None
        assert kernel.start_time(other.pid) != "1"
    finally:
        for process in (orphan, other):
            process.kill()
            process.wait()


# What of a container survives its shim.


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
