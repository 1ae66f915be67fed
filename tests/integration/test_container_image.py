"""The Containerfile, and its steps without a builder: the wheel in an environment of its own, run by a user without
rights where nothing can be written.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ_ONLY = "mount -o remount,ro,bind / && exec unshare --user --map-user=65534 --map-group=65534 "


def instructions() -> list[tuple[str, str]]:
    lines = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
    words = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in words]


def test_the_image_is_built_in_stages_and_starts_without_root_and_shell() -> None:
    found = instructions()
    stages = [index for index, (word, _) in enumerate(found) if word == "FROM"]
    assert len(stages) == 2
    last = dict(found[stages[-1] :])
    assert "RUN" not in last, "the last stage would need a shell"
    assert last["USER"] == "65534:65534"
    assert last["ENTRYPOINT"] == '["cathedra"]'
    assert last["COPY"] == "--from=build /cathedra /cathedra"
    assert last["ENV"].startswith("PATH=/cathedra/bin:")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of the build stage; dependencies come from the one that runs the tests."""
    made = tmp_path_factory.mktemp("image") / "cathedra"
    subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
    subprocess.run([made / "bin" / "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True)
    (packages,) = made.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def confined(environment: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = READ_ONLY + shlex.join([str(environment / "bin" / words[0]), *words[1:]])
    variables = {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", command],
        env=variables,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_the_confinement_refuses_writes_and_root(environment: Path) -> None:
    program = "import os, cathedra; print(os.getuid(), cathedra.__file__); open('written', 'w')"
    done = confined(environment, "python", "-c", program)
    user, file = done.stdout.split()
    assert (user, Path(file).is_relative_to(environment)) == ("65534", True)
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("part", ["scheduler", "controller-manager", "driver"])
def test_each_part_starts_there(environment: Path, part: str) -> None:
    done = confined(environment, "cathedra", part, "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: cathedra {part}" in done.stdout
