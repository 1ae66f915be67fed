"""A container runs on the CPUs of its claims."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.drivers.hooks.cpuset import format_cpus, parse_cpus, pin
from cathedra.drivers.hooks.state import ContainerState, HookError, read_state

ENV = ["PATH=/bin", "DRA_CPUSET_a=0-1", "DRA_CPUSET_b=4", "OTHER=9"]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/config.json").write_text(json.dumps({"process": {"env": ENV}}))
    return tmp_path / "bundle"


@given(st.sets(st.integers(0, 300)))
def test_lists_of_cpus_are_read_as_they_are_written(cpus: set[int]) -> None:
    assert parse_cpus(format_cpus(cpus)) == cpus


def test_lists_are_those_of_the_kernel() -> None:
    assert format_cpus([3, 0, 1, 2, 8]) == "0-3,8"
    assert parse_cpus("0-3,8\n") == {0, 1, 2, 3, 8}


@pytest.mark.parametrize(
    ("line", "folder"),
    [("0::/kubepods/c1", "sys/fs/cgroup/kubepods/c1"), ("4:cpuset:/c1", "sys/fs/cgroup/cpuset/c1")],
)
def test_the_cgroup_of_either_version_gets_the_cpus_of_all_claims(
    tmp_path: Path, bundle: Path, line: str, folder: str
) -> None:
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/cgroup").write_text(f"9:cpu:/x\n{line}\n")
    (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / folder / "cpuset.cpus"
    file.write_text("0-7\n")
    pin(ContainerState(77, bundle), tmp_path)
    assert file.read_text() == "0-1,4"


def test_without_a_cgroup_of_its_own_the_first_process_is_bound(bundle: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    (bundle / "config.json").write_text(json.dumps({"process": {"env": [f"DRA_CPUSET_a={cpu}"]}}))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        # Below this root there is no /proc that names a cgroup.
        assert pin(ContainerState(child.pid, bundle), bundle) == f"affinity {cpu}"
        assert os.sched_getaffinity(child.pid) == {cpu}
    finally:
        child.communicate(b"\n")


def test_without_claimed_cpus_nothing_is_done(bundle: Path) -> None:
    (bundle / "config.json").write_text("{}")
    assert pin(ContainerState(1, bundle)) == "no CPUs were claimed"


def test_what_the_kernel_refuses_fails_the_container(tmp_path: Path, bundle: Path) -> None:
    with pytest.raises(HookError, match="CPUs 0-1,4: "):
        pin(ContainerState(2**30, bundle), tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"pid": "x"}', "{}"])
def test_a_hook_without_a_state_says_so(text: str) -> None:
    with pytest.raises(HookError, match="no state of a container"):
        read_state(io.StringIO(text))


def test_the_program_ends_with_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cathedra.drivers.hooks.cpuset"], input="{}", capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize("process", [None, {}, {"env": None}])
def test_a_container_without_variables_has_none(tmp_path: Path, process: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"process": process}))
    assert ContainerState(1, tmp_path).environment() == {}
