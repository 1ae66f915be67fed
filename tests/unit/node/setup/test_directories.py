"""Where a pod's files are."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.node.setup.directories import PodDirectories, log_directory


@pytest.fixture
def directories(tmp_path: Path) -> PodDirectories:
    return PodDirectories(tmp_path, Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u")))


def test_others_of_the_machine_see_neither_volumes_nor_logs(directories: PodDirectories) -> None:
    directories.make()
    assert [path.stat().st_mode & 0o777 for path in (directories.home, directories.logs)] == [0o700, 0o700]


def test_directories_that_were_open_are_closed(directories: PodDirectories) -> None:
    directories.home.mkdir(parents=True, mode=0o755)
    directories.home.chmod(0o755)
    directories.make()
    assert directories.home.stat().st_mode & 0o777 == 0o700


def test_each_run_of_a_container_has_files_of_its_own(directories: PodDirectories, tmp_path: Path) -> None:
    logs = log_directory(tmp_path, "ns", "p", "u")
    assert directories.log("c", 1) == logs / "c" / "1.log"
    assert directories.termination_log("c", 0) != directories.termination_log("c", 1)


def test_how_often_a_pod_was_set_up_is_remembered(directories: PodDirectories) -> None:
    assert directories.generation() == 0
    directories.make()
    directories.set_generation(3)
    assert directories.generation() == 3
    (directories.home / "generation").write_text("three")
    assert directories.generation() == 0


def test_logs_outlive_the_home_and_go_in_the_end(directories: PodDirectories) -> None:
    directories.make()
    directories.remove_home()
    assert (directories.home.exists(), directories.logs.exists()) == (False, True)
    directories.remove_all()
    assert not directories.logs.exists()
