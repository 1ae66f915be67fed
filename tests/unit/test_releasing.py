"""What a release is made of: workflow files, and the table of dependencies."""

from __future__ import annotations

import datetime
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from tools import dependencies, image, installs, pythons

_ROOT = Path(__file__).parents[2]
_WORKFLOWS = sorted((_ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_jobs_whose_steps_run_or_use_something(path: Path) -> None:
    workflow = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    assert workflow["on"]
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])


def test_workflows_call_targets_that_the_makefile_has() -> None:
    targets = {line.partition(":")[0] for line in (_ROOT / "Makefile").read_text().splitlines() if ":" in line}
    called = {
        line.partition("make ")[2]
        for path in _WORKFLOWS
        for line in path.read_text().splitlines()
        if "run: make" in line
    }
    assert called <= targets


def test_the_table_has_a_full_row_for_each_dependency_and_no_other() -> None:
    text = dependencies.PAGE.read_text().partition(dependencies.BEGIN)[2].partition(dependencies.END)[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    declared = dependencies.dependencies()
    assert set(dependencies.REASONS) == set(declared)
    assert [row[0] for row in rows] == list(declared)
    for name, lowest, why, since, newest, *marks, instead in rows:
        assert (lowest, why, instead) == (declared[name], *dependencies.REASONS[name])
        assert datetime.date.fromisoformat(since)
        assert newest
        assert len(marks) == len(dependencies.TAGS)
        assert set(marks) <= {"yes", "no"}


def test_the_readme_has_the_result_of_each_python_that_the_package_declares() -> None:
    table = pythons.README.read_text().partition(pythons.BEGIN)[2].partition(pythons.END)[0]
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == list(pythons.VERSIONS)
    classifiers = (_ROOT / "pyproject.toml").read_text()
    assert all(f"Python :: {version}" in classifiers for version in pythons.VERSIONS)


def test_the_readme_has_the_result_of_each_way_to_install_and_its_tests_exist() -> None:
    table = installs.README.read_text().partition(installs.BEGIN)[2].partition(installs.END)[0].splitlines()[2:]
    for row, way in zip(table, installs.WAYS, strict=True):
        assert row in (f"{way.row} yes |", f"{way.row} not tested |")
    assert all((_ROOT / "tests" / "integration" / f"{test}.py").exists() for way in installs.WAYS for test in way.tests)


def test_without_a_builder_the_image_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    command = [sys.executable, str(_ROOT / "tools" / "image.py")]
    environment = {**os.environ, "PATH": str(tmp_path)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "image: buildah and mmdebstrap missing: apt-get install buildah mmdebstrap\n"


def test_the_base_of_the_image_is_that_of_its_builder_without_the_shell(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "builder.tar", "w") as tar:
        for name in ("./bin/dash", "./usr/bin/python3.11"):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = 4, 0o755
            tar.addfile(entry, io.BytesIO(b"\x7fELF"))
        shell = tarfile.TarInfo("./bin/sh")
        shell.type, shell.linkname = tarfile.SYMTYPE, "dash"
        tar.addfile(shell)
    image.without_shell(tmp_path / "builder.tar", tmp_path / "base.tar")
    with tarfile.open(tmp_path / "base.tar") as tar:
        assert [(member.name, member.mode) for member in tar] == [("./usr/bin/python3.11", 0o755)]
