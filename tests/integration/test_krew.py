"""The kubectl plugin for krew: manifest and archive keep krew's rules, and kubectl runs the plugin as krew links it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import dist

from tests.requirements import kubectl_path

ROOT = Path(__file__).parents[2]
HOMEPAGE = "https://example.com/cathedra"
# Platforms of which krew has programs.
PLATFORMS = [
    (system, arch)
    for system in ("linux", "darwin", "windows")
    for arch in ("386", "amd64", "arm", "arm64", "ppc64le")
    if (system, arch) not in (("darwin", "386"), ("darwin", "arm"))
]


@pytest.fixture(scope="module")
def built(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with archive and manifest."""
    target = tmp_path_factory.mktemp("dist") / "dist-krew"
    dist.plugin(wheel, target, HOMEPAGE, epoch=1_700_000_000)
    return target


@pytest.fixture(scope="module")
def manifest(built: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((built / "dra.yaml").read_text()))


def archive(built: Path) -> Path:
    (found,) = built.glob("*.tar.gz")
    return found


# --- krew's rules: internal/index/validation/validate.go and cmd/validate-krew-manifest/main.go in kubernetes-sigs/krew


def test_the_manifest_keeps_the_rules_for_a_plugin(manifest: dict[str, Any], built: Path) -> None:
    spec = manifest["spec"]
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert manifest["kind"] == "Plugin"
    assert [path.stem for path in built.glob("*.yaml")] == [manifest["metadata"]["name"]]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 70
    lines = (spec["description"] + spec["caveats"]).splitlines()
    assert max(map(len, lines)) <= 80
    assert spec["homepage"] == HOMEPAGE


def test_each_platform_is_matched_once_at_most_and_each_selector_matches_one(manifest: dict[str, Any]) -> None:
    selectors = [platform["selector"] for platform in manifest["spec"]["platforms"]]
    matches = {pair: [selector for selector in selectors if _matches(selector, *pair)] for pair in PLATFORMS}
    assert all(len(found) <= 1 for found in matches.values())
    assert all(any(selector in found for found in matches.values()) for selector in selectors)
    assert matches["linux", "amd64"]


def _matches(selector: dict[str, Any], system: str, arch: str) -> bool:
    labels = {"os": system, "arch": arch}
    assert set(selector) == {"matchExpressions"}
    return all(one["operator"] == "In" and labels[one["key"]] in one["values"] for one in selector["matchExpressions"])


def test_address_and_checksum_are_the_archives_and_it_has_program_and_licence(
    manifest: dict[str, Any], built: Path
) -> None:
    for platform in manifest["spec"]["platforms"]:
        version = manifest["spec"]["version"]
        assert platform["uri"] == f"{HOMEPAGE}/releases/download/{version}/{archive(built).name}"
        assert platform["sha256"] == hashlib.sha256(archive(built).read_bytes()).hexdigest()
        with tarfile.open(archive(built)) as tar:
            members = {member.name: member for member in tar}
        assert members[platform["bin"]].mode & 0o111
        assert "LICENSE" in members
        assert not any(name.startswith(("/", "..")) or member.issym() for name, member in members.items())


def test_two_builds_are_equal(built: Path, wheel: Path, tmp_path: Path) -> None:
    dist.plugin(wheel, tmp_path / "again", HOMEPAGE, epoch=1_700_000_000)
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == {
        path.name: path.read_bytes() for path in built.iterdir()
    }


# --- the installed plugin


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The plugin unpacked and linked as by krew. Dependencies come from the environment that runs the tests."""
    krew = tmp_path_factory.mktemp("krew")
    store = krew / "store" / "dra" / "v0.1.0"
    store.mkdir(parents=True)
    with tarfile.open(archive(built)) as tar:
        # Debian's Python 3.11 has no filters yet; the archive is our own.
        if hasattr(tarfile, "data_filter"):
            tar.extractall(store, filter="data")
        else:
            tar.extractall(store)
    (krew / "bin").mkdir()
    for name in ("kubectl-dra", "kubectl_complete-dra"):
        (krew / "bin" / name).symlink_to(store / "kubectl-dra")
    # The program's first line names python3: the one of the tests.
    (krew / "bin" / "python3").symlink_to(sys.executable)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
        "PATH": f"{krew / 'bin'}:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(krew / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }


def called(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [kubectl_path(), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_kubectl_runs_the_plugin_which_installs_itself_once(environment: dict[str, str]) -> None:
    first = called(environment, "dra", "explain", "-A", "--dump", str(ROOT / "examples" / "insight" / "cluster.yaml"))
    assert first.returncode in (0, 1), first.stderr
    assert "pod team-a/train" in first.stdout
    assert first.stderr.startswith("kubectl dra: first call: installing it into ")
    second = called(environment, "dra", "--help")
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout.startswith("usage: kubectl dra ")


def test_linked_as_its_completion_it_completes(environment: dict[str, str]) -> None:
    assert called(environment, "__complete", "dra", "expl").stdout.split() == ["explain", ":4"]


def test_a_failed_installation_is_one_line_and_not_taken_for_complete(
    environment: dict[str, str], tmp_path: Path
) -> None:
    alone = {**environment, "XDG_CACHE_HOME": str(tmp_path), "PIP_NO_DEPS": "0", "PYTHONPATH": ""}
    done = called(alone, "dra", "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert "kubectl dra: cannot install its dependencies (the package index may be out of reach): " in done.stderr
    assert done.stderr.count("\n") == 2
    assert not list(tmp_path.rglob(".complete"))
