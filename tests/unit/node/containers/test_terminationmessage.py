"""The message that a container leaves: from its file, or from the end of its log (docs/spec/node.md §17.7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container
from cathedra.node.containers.terminationmessage import with_termination_message
from cathedra.node.runtime.runtime import ContainerRun, PodIdentity
from cathedra.node.setup.directories import PodDirectories
from tests.unit.node.fakes import make_pod

FALLBACK = Container(name="c", termination_message_policy="FallbackToLogsOnError")


class Left:
    """What one run of a container left behind."""

    def __init__(self, root: Path) -> None:
        self.directories = PodDirectories(root, make_pod())
        self.file = self.directories.termination_log("c", 0)
        self.log = self.directories.log("c", 0)
        for path in (self.file, self.log):
            path.parent.mkdir(parents=True)

    def message(self, container: Container, code: int) -> str:
        run = ContainerRun("id", PodIdentity("d", "p", "u"), "c", 0, 1.0, finished_at=2.0, exit_code=code)
        return with_termination_message(self.directories, container, run).message


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def test_the_file_is_the_message_up_to_4096_bytes(left: Left) -> None:
    left.file.write_bytes(b"x" * 5000)
    assert left.message(Container(name="c"), 0) == "x" * 4096


def test_without_a_file_there_is_none_unless_the_policy_falls_back_after_an_error(left: Left) -> None:
    left.log.write_text("2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:00Z stderr F two words\n")
    assert left.message(Container(name="c"), 1) == ""
    assert left.message(FALLBACK, 0) == ""
    assert left.message(FALLBACK, 1) == "one\ntwo words"


def test_the_fallback_is_the_last_80_lines_and_2048_characters(left: Left) -> None:
    left.log.write_text("".join(f"2026-01-01T00:00:00Z stdout F {number}\n" for number in range(200)))
    assert left.message(FALLBACK, 1).split("\n") == [str(number) for number in range(120, 200)]
    left.log.write_text(f"2026-01-01T00:00:00Z stdout F {'y' * 3000}\n")
    assert left.message(FALLBACK, 1) == "y" * 2048


def test_the_file_goes_before_the_log(left: Left) -> None:
    left.file.write_text("file")
    left.log.write_text("2026-01-01T00:00:00Z stdout F log\n")
    assert left.message(FALLBACK, 1) == "file"
