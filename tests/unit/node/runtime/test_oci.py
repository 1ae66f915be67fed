"""Containers by crun or runc: the requests to the shim and the arguments of the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.cdi.spec import CDIError
from cathedra.node.runtime.command import ExecCommand
from cathedra.node.runtime.oci import OCILauncher
from cathedra.node.runtime.runtime import BindMount, ContainerSpec, PodIdentity, ResourceLimits


def spec(**changes: Any) -> ContainerSpec:
    base: dict[str, Any] = {"id": "i", "pod": PodIdentity("ns", "p", "u"), "name": "c", "attempt": 0, "argv": ("sh",)}
    return ContainerSpec(**(base | changes))


def launcher(directory: Path, name: str = "crun") -> OCILauncher:
    return OCILauncher(name, "1", Path("/usr/bin") / name, directory, [directory / "cdi"], "group")


def described(directory: Path, made: ContainerSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the request to the shim, and the bundle."""
    bundle = directory / "bundles" / "i"
    bundle.mkdir(parents=True, exist_ok=True)
    told = launcher(directory).describe(made, bundle)
    return told, json.loads((bundle / "config.json").read_text())


def test_a_container_has_a_bundle_a_root_of_its_own_and_a_cgroup(tmp_path: Path) -> None:
    told, config = described(tmp_path, spec())
    assert (told["kind"], told["cgroup"], told["pins"]) == ("oci", "group/i", [])
    assert told["runtime"] == ["/usr/bin/crun", "--root", str(tmp_path / "runtime")]
    assert config["root"]["path"] == str(tmp_path / "bundles" / "rootfs" / "i" / "merged")
    assert config["linux"]["cgroupsPath"] == "group/i"
    assert config["process"]["args"] == ["sh"]


def test_the_root_of_a_bundle_has_no_link_in_its_path(tmp_path: Path) -> None:
    """runc refuses a root below a link, and a data directory with a long path is reached by one."""
    (tmp_path / "long").mkdir()
    (tmp_path / "short").symlink_to(tmp_path / "long")
    _, config = described(tmp_path / "short", spec())
    assert config["root"]["path"] == str(tmp_path / "long" / "bundles" / "rootfs" / "i" / "merged")


def test_devices_are_applied_to_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "cdi").mkdir()
    document = {
        "cdiVersion": "0.3.0",
        "kind": "example.com/gpu",
        "devices": [{"name": "a", "containerEdits": {"env": ["GPU=0"]}}],
    }
    (tmp_path / "cdi" / "example.json").write_text(json.dumps(document))
    _, config = described(tmp_path, spec(cdi_devices=("example.com/gpu=a",)))
    assert "GPU=0" in config["process"]["env"]
    with pytest.raises(CDIError):
        described(tmp_path, spec(cdi_devices=("example.com/gpu=b",)))


def test_a_part_of_a_volume_is_mounted_from_where_the_shim_pins_it(tmp_path: Path) -> None:
    """The container itself may replace the named file between check and mount."""
    whole = BindMount("/vol", "/whole")
    part = BindMount("/vol/a/b", "/part", volume="/vol")
    told, config = described(tmp_path, spec(mounts=(whole, part)))
    assert told["pins"] == [{"number": 1, "volume": "/vol", "part": "a/b"}]
    sources = {mount["destination"]: mount["source"] for mount in config["mounts"] if "source" in mount}
    assert sources["/whole"] == "/vol"
    assert sources["/part"] not in ("/vol", "/vol/a/b")
    assert sources["/part"].startswith(str(tmp_path))


def test_a_process_is_not_made_harder_to_kill_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cathedra.node.runtime import oci

    own = int(Path("/proc/self/oom_score_adj").read_text())
    wanted = spec(limits=ResourceLimits(oom_score_adj=own - 1))
    monkeypatch.setattr(oci, "_has_capability", lambda number: True)
    assert described(tmp_path, wanted)[1]["process"]["oomScoreAdj"] == own - 1
    monkeypatch.setattr(oci, "_has_capability", lambda number: False)
    assert described(tmp_path, wanted)[1]["process"]["oomScoreAdj"] == own
    easier = spec(limits=ResourceLimits(oom_score_adj=own + 1))
    assert described(tmp_path, easier)[1]["process"]["oomScoreAdj"] == own + 1


@pytest.mark.parametrize(("name", "hands_over"), [("crun", True), ("runc", False)])
def test_only_crun_hands_a_terminal_over_and_waits(tmp_path: Path, name: str, hands_over: bool) -> None:
    assert launcher(tmp_path, name).hands_over_terminals is hands_over


def test_a_command_runs_by_the_runtime_in_the_mounts_of_the_shim(tmp_path: Path) -> None:
    def command(**options: Any) -> list[str]:
        argv, environment, work = launcher(tmp_path).exec_command(
            tmp_path, "i", 7, ExecCommand(("ls", "-l"), log=Path("/log"), **options)
        )
        assert (environment, work) == (None, "/")
        return argv

    plain = command(tty=False)
    assert plain[:3] == ["nsenter", "--mount=/proc/7/ns/mnt", "--"]
    assert plain[-4:] == ["exec", "i", "ls", "-l"]
    assert plain[6:10] == ["--log", "/log", "--log-format", "json"]
    with_terminal = command(tty=True, console=Path("/console"))
    assert with_terminal[-6:] == ["--tty", "--console-socket", "/console", "i", "ls", "-l"]
