"""The program that prints the table of measurements, as far as it can be tested without measuring."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from benchmarks.apiserver import Target, target_of


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], capture_output=True, text=True, check=False)


def test_every_module_that_the_help_names_has_rows() -> None:
    found = re.search(r"of (.*) \(default", " ".join(program("--help").stdout.split()))
    assert found is not None
    names = found[1].split(", ")
    assert "apiserver" in names
    # By their text: to import all of them takes five seconds.
    for name in names:
        spec = importlib.util.find_spec(f"benchmarks.{name}")
        assert spec is not None
        assert spec.origin is not None
        tree = ast.parse(Path(spec.origin).read_text())
        defined = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
        imported = [each.name for one in tree.body if isinstance(one, ast.ImportFrom) for each in one.names]
        assert "rows" in {*defined, *imported}, name


@pytest.mark.parametrize("arguments", [["report"], ["cel", "--against", "kubeconfig"], ["cel", "--only", "name"]])
def test_arguments_that_do_not_fit_are_refused_in_one_line(arguments: list[str]) -> None:
    done = program(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def kubeconfig(folder: Path, cluster: dict[str, str], user: dict[str, str]) -> Path:
    path = folder / "kubeconfig"
    contexts = [
        {"name": name, "context": {"cluster": name, "user": name}}
        for name in ("other", "wanted")  # the first one is not the current one
    ]
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "wanted",
                "clusters": [
                    {"name": "other", "cluster": {"server": "https://192.0.2.1:1"}},
                    {"name": "wanted", "cluster": {"server": "https://192.0.2.2:6443"} | cluster},
                ],
                "users": [{"name": "other", "user": {}}, {"name": "wanted", "user": user}],
                "contexts": contexts,
            }
        )
    )
    return path


def test_the_load_finds_certificates_that_a_kubeconfig_has_as_files_and_as_data(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text(name)
    as_files = kubeconfig(
        tmp_path,
        {"certificate-authority": "ca.pem"},
        {"client-certificate": "cert.pem", "client-key": str(tmp_path / "key.pem")},
    )
    expected = Target("192.0.2.2", 6443, *(str(tmp_path / "made" / f"bench-{n}.pem") for n in PARTS))
    assert target_of(as_files, tmp_path / "made") == expected
    assert [Path(one).read_text() for one in (expected.authority, expected.certificate, expected.key)] == CONTENTS
    as_data = kubeconfig(
        tmp_path,
        {"certificate-authority-data": "Y2E="},
        {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"},
    )
    assert target_of(as_data, tmp_path / "made") == expected
    assert [Path(one).read_text() for one in (expected.authority, expected.certificate, expected.key)] == CONTENTS


PARTS = ("authority", "certificate", "key")
CONTENTS = ["ca", "cert", "key"]


def test_a_kubeconfig_without_a_client_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs an HTTPS address and a client certificate"):
        target_of(kubeconfig(tmp_path, {}, {"token": "t"}), tmp_path)


def test_a_cluster_whose_figures_are_kept_is_drawn_without_being_measured(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib, an extra of the project")
    kept = [[1000, *[1.5] * 16], [2000, *[2.5] * 16]]
    (tmp_path / "clusters.json").write_text(json.dumps(kept))
    command = [sys.executable, "-m", "benchmarks.report", "--to", str(tmp_path), "--clusters", "2000", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "| start until it serves, s (start) | 1.5 | 2.5 |" in done.stdout.splitlines()
    assert "longest stall, ms" in (tmp_path / "clusters.svg").read_text()
