"""Named points at which a process dies: only the one that is named, only while it is armed, once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import cathedra.node
from cathedra.node.faultpoints import AGENT_POINTS, MARK_VARIABLE, MARKED, POINT_VARIABLE, SHIM_POINTS, FaultPoints


def dies(points: FaultPoints, reached: str) -> bool:
    """Return True if a process that reaches that point is killed."""
    pid = os.fork()
    if pid == 0:
        points.reach(reached)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def test_a_process_dies_once_at_the_point_that_is_named_and_armed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    points = FaultPoints.from_environment({POINT_VARIABLE: "shim:exit-seen", MARK_VARIABLE: str(mark)})
    assert not dies(points, "shim:exit-seen"), "it is not armed"
    mark.touch()
    assert not dies(points, "shim:exit-recorded")
    assert dies(points, "shim:exit-seen")
    assert not mark.exists()
    assert not dies(points, "shim:exit-seen")


def test_a_mark_may_name_one_point_after_another(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    points = FaultPoints(MARKED, mark)
    for point in ("shim:exit-seen", "agent:volumes-made"):
        assert not dies(points, point), "it is not armed"
        mark.write_text(point)
        assert not dies(points, "shim:exit-recorded")
        assert dies(points, point)
        assert not mark.exists()


def test_without_the_variables_nothing_dies() -> None:
    assert not dies(FaultPoints.from_environment({}), "agent:volumes-made")


def test_a_point_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no fault point 'agent:lunch'; set CATHEDRA_FAULT_POINT to one of agent:"):
        FaultPoints("agent:lunch", tmp_path / "mark")
    with pytest.raises(ValueError, match="no fault point"):
        FaultPoints("agent:volumes-made")


@pytest.mark.parametrize("point", [*AGENT_POINTS, *SHIM_POINTS])
def test_every_point_stands_behind_a_step_of_the_program(point: str) -> None:
    package = Path(cathedra.node.__file__).parent
    reached = sum(f'reach("{point}")' in path.read_text() for path in package.rglob("*.py"))
    assert reached >= 1
