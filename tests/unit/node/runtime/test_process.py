"""Plain processes in place of containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.cdi.spec import CDIError
from cathedra.node.runtime.command import ExecCommand
from cathedra.node.runtime.process import MOUNTS_VARIABLE, ProcessLauncher
from cathedra.node.runtime.runtime import BindMount, ContainerSpec, PodIdentity


def spec(**changes: Any) -> ContainerSpec:
    base: dict[str, Any] = {"id": "i", "pod": PodIdentity("ns", "p", "u"), "name": "c", "attempt": 0, "argv": ("sh",)}
    return ContainerSpec(**(base | changes))


@pytest.fixture
def cdi(tmp_path: Path) -> Path:
    directory = tmp_path / "cdi"
    directory.mkdir()
    edits = {"env": ["GPU=0"], "mounts": [{"hostPath": "/usr", "containerPath": "/gpu"}]}
    document = {
        "cdiVersion": "0.3.0",
        "kind": "example.com/gpu",
        "devices": [{"name": "a", "containerEdits": edits}],
    }
    (directory / "example.json").write_text(json.dumps(document))
    return directory


def described(spec: ContainerSpec, directory: Path, *cdi: Path) -> dict[str, Any]:
    directory.mkdir(exist_ok=True)
    return ProcessLauncher(cdi).describe(spec, directory)


def test_a_process_has_its_command_and_the_variables_of_the_container(tmp_path: Path) -> None:
    made = described(spec(environment=(("A", "1"), ("PATH", "/mine")), hostname="p"), tmp_path / "c")
    assert (made["kind"], made["argv"], made["cwd"]) == ("process", ["sh"], str(tmp_path / "c"))
    environment = made["env"]
    assert (environment["A"], environment["PATH"], environment["HOSTNAME"]) == ("1", "/mine", "p")


def test_what_would_be_mounted_is_found_below_a_directory_that_a_variable_names(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("hello")
    mounts = (BindMount(str(tmp_path / "data"), "/etc/app/data"),)
    made = described(spec(mounts=mounts), tmp_path / "c")
    assert (Path(made["env"][MOUNTS_VARIABLE]) / "etc/app/data").read_text() == "hello"


def test_a_mount_cannot_be_laid_out_above_its_directory(tmp_path: Path) -> None:
    made = described(spec(mounts=(BindMount("/usr", "/../../outside"),)), tmp_path / "c")
    assert (Path(made["env"][MOUNTS_VARIABLE]) / "outside").is_symlink()
    assert not (tmp_path.parent / "outside").exists()


def test_devices_bring_their_variables_and_mounts(tmp_path: Path, cdi: Path) -> None:
    made = described(spec(cdi_devices=("example.com/gpu=a",)), tmp_path / "c", cdi)
    assert made["env"]["GPU"] == "0"
    assert (Path(made["env"][MOUNTS_VARIABLE]) / "gpu").resolve() == Path("/usr").resolve()


def test_a_device_that_no_document_describes_is_an_error(tmp_path: Path, cdi: Path) -> None:
    with pytest.raises(CDIError):
        described(spec(cdi_devices=("example.com/gpu=b",)), tmp_path / "c", cdi)


def test_a_working_directory_is_looked_for_among_the_mounts_and_then_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    mounts = (BindMount(str(tmp_path / "work"), "/app"),)
    inside = described(spec(mounts=mounts, working_directory="/app"), tmp_path / "c1")
    assert inside["cwd"] == f"{inside['env'][MOUNTS_VARIABLE]}/app"
    assert described(spec(working_directory="/usr"), tmp_path / "c2")["cwd"] == "/usr"
    assert described(spec(working_directory="/nowhere"), tmp_path / "c3")["cwd"] == str(tmp_path / "c3")


def test_a_command_in_the_container_has_its_environment_and_directory(tmp_path: Path) -> None:
    launcher = ProcessLauncher(())
    (tmp_path / "i").mkdir()
    made = launcher.describe(spec(environment=(("A", "1"),)), tmp_path / "i")
    argv, environment, work = launcher.exec_command(
        tmp_path, "i", 1, ExecCommand(("ls",), tty=False, log=tmp_path / "log")
    )
    assert (argv, environment, work) == (["ls"], made["env"], made["cwd"])
