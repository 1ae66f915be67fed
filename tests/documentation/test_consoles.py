"""Every console block of the README, the pages and the examples does what it shows."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.background import stop
from tests.documentation.consoles import Shell, Step, read_steps, run_steps, same
from tests.requirements import kubectl_path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
    if read_steps(page)
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a name as short as users' are: parts make sockets below the current directory."""
    with tempfile.TemporaryDirectory(prefix="doc-", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture
def fresh(place: Path) -> Iterator[Shell]:
    """A copy of the repository as a user has it, in which ``make install`` has been run, and a home of its own."""
    copy, home, programs = place / "cathedra", place / "home", place / "programs"
    for folder in (copy, home, programs):
        folder.mkdir()
    shutil.copytree(ROOT / "examples", copy / "examples")
    for file in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / file, copy / file)
        os.utime(copy / file, (0, 0))
    installed = copy / ".venv"
    (installed / "bin").mkdir(parents=True)
    (installed / ".base").touch()
    for program in ("cathedra", "kubectl-dra", "python"):
        (installed / "bin" / program).write_text(f'#!/bin/sh\nexec {sys.executable} {_called(program)} "$@"\n')
        (installed / "bin" / program).chmod(0o755)
    (programs / "kubectl").symlink_to(kubectl_path())
    path = os.pathsep.join((str(programs), str(installed / "bin"), os.environ["PATH"]))
    shell = Shell(copy, {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}, place / "output")
    yield shell
    shell.close()
    state = home / ".local" / "state" / "cathedra"
    for data in (state, *(state / "clusters").glob("*")):
        stop(DataDir(data))


def _called(program: str) -> str:
    return {"cathedra": "-m cathedra.cli.main", "kubectl-dra": "-m cathedra.cli.dra.main"}.get(program, "")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES)
def test_every_console_block_does_what_it_shows(page: str, fresh: Shell) -> None:
    assert list(run_steps(read_steps(ROOT / page), fresh)) == []


def test_the_pages_that_begin_are_among_them() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/zh/quickstart.md", "examples/tutorial/README.md"} <= set(PAGES)


def test_steps_are_found_with_their_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n   ```console\n   $ one \\\n     two\n   out\n   $ three\n   ```\n```sh\n$ not this\n```\n"
    )
    assert read_steps(page) == [Step("page.md:4", "one \\\n  two", ("out",)), Step("page.md:7", "three", ())]


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        (("a-x7k2p   1s",), ["a-9zzzz 12m3s"], True),
        (("a   pending",), ["a   allocated"], False),
        (("begin", "…", "end"), ["begin", "1", "2", "end"], True),
        (("begin…",), ["begin with more"], True),
        (("one",), ["one", "two"], False),
        (("CLAIM=273c924e-f5bc-40ed-85e2-bb4fded85514",), ["CLAIM=edc129b7-c102-4cf1-b688-5aa020092060"], True),
        (("(process 12); after 0.10 s",), ["(process 4711); after 12.02 s"], True),
    ],
)
def test_output_is_compared_with_what_changes_masked(shown: tuple[str, ...], printed: list[str], equal: bool) -> None:
    assert same(shown, printed) is equal
