"""The files of a new driver: complete, and right as they are."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.cli.main import main
from cathedra.client.client import Client
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.driverfiles import scaffold_files
from cathedra.cluster.manifests import create_all, read_manifests
from cathedra.driver.loading import load_driver
from cathedra.releases import FeatureGates


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a driver with a name of two words, written by the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "desk-lamp"))
    assert main(["driver-new", "desk-lamp.example.com"]) == 0
    return tmp_path / "desk-lamp"


def imported(file: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    return module


def test_the_generated_tests_pass(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(generated / "desk_lamp.py", monkeypatch)
    module = imported(generated / "test_desk_lamp.py", monkeypatch)
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


async def test_a_server_accepts_the_manifests(generated: Path) -> None:
    clock = SystemClock()
    server = await APIServer.open(ServerConfig(), clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    gates = FeatureGates.for_release()
    await create_all(client, read_manifests(generated / "manifest.yaml", gates))
    assert len(await create_all(client, read_manifests(generated / "pod.yaml", gates))) == 2
    await server.close()


def test_the_manifest_and_the_image_name_the_driver(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(generated)
    target = "desk_lamp:DeskLampDriver"
    assert load_driver(target).name == "desk-lamp.example.com"
    assert f"--module={target}" in (generated / "manifest.yaml").read_text()
    assert f"--module={target}" in (generated / "Containerfile").read_text()


def test_a_word_alone_is_a_name_below_the_example_domain() -> None:
    assert 'name = "lamp.example.com"' in scaffold_files("lamp")["lamp.py"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Lamp.example.com", "is no name of a driver"),
        ("a" * 60 + ".example.com", "of at most 63 characters"),
        ("pathlib.example.com", "the driver's module would be pathlib.py"),
        ("3d.example.com", "the driver's module would be 3d.py"),
    ],
)
def test_a_name_that_no_driver_or_module_can_have_is_refused(name: str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        scaffold_files(name)


def test_files_that_exist_are_never_overwritten(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (generated / "desk_lamp.py").write_text("# mine")
    assert main(["driver-new", "desk-lamp.example.com"]) == 2
    assert "desk-lamp exists and is not empty" in capsys.readouterr().err
    assert (generated / "desk_lamp.py").read_text() == "# mine"
