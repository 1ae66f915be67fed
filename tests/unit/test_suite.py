"""The runner of the suite, and the environment without optional programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import bare, suite

PASSING = """
tests/unit/api/test_a.py ..s.                                            [ 50%]
tests/unit/api/test_b.py ..                                              [100%]

=========================== short test summary info ============================
SKIPPED [1] tests/requirements.py:52: crun is not installed; get it with: apt-get install crun
======================== 5 passed, 1 skipped in 1.62s =========================
"""
FAILING = """
tests/unit/api/test_a.py F.                                              [100%]

=================================== FAILURES ===================================
___________________________________ test_x _____________________________________
E   assert 1 == 2
=========================== short test summary info ============================
FAILED tests/unit/api/test_a.py::test_x - assert 1 == 2
========================= 1 failed, 1 passed in 0.12s ==========================
"""


def report(name: str, output: str, status: int) -> tuple[suite.PartReport, list[str]]:
    made = suite.PartReport(name)
    shown = [line for line in map(made.take, output.splitlines()) if line]
    made.status = status
    return made, shown


def test_progress_is_a_line_for_each_file() -> None:
    _, shown = report("unit-front", PASSING, 0)
    assert shown == [
        "unit-front    50%  tests/unit/api/test_a.py ..s.",
        "unit-front   100%  tests/unit/api/test_b.py ..",
    ]


def test_the_summary_adds_all_parts_up_and_says_why_tests_were_skipped() -> None:
    lines = suite.summary([report("a", PASSING, 0)[0], report("b", PASSING, 0)[0]], 60)
    assert lines[-2:] == [
        "skipped 2: crun is not installed; get it with: apt-get install crun",
        "10 passed, 0 failed, 2 skipped in 60s",
    ]


def test_failures_are_shown_in_one_piece_and_counted() -> None:
    part, shown = report("b", FAILING, 1)
    assert "E   assert 1 == 2" in part.details
    assert shown == ["b            100%  tests/unit/api/test_a.py F."]
    assert suite.summary([report("a", PASSING, 0)[0], part], 1)[-1] == "6 passed, 1 failed, 1 skipped in 1s"
    assert not part.ended_well


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("tests/unit/api/test_a.py ..\n", -11),  # it crashed
        ("tests/unit/api/test_a.py ..\n", 0),  # it ended without a word
        ("============================ no tests ran in 0.01s =============================\n", 5),
        ("ERROR: usage: pytest [options]\n", 4),
    ],
)
def test_a_process_that_does_not_end_as_pytest_does_is_a_failure(output: str, status: int) -> None:
    part, shown = report("a", output, status)
    assert not part.ended_well
    assert len(shown) + len(part.others) + len(part.details) == 1  # nothing of what it printed is lost
    assert suite.summary([part], 1)[-1].startswith("0 passed, 1 failed")


def test_a_part_of_which_options_choose_no_test_is_no_failure() -> None:
    part, _ = report("a", "======= no tests ran in 0.01s =======\n", 5)
    part.selected = True
    assert part.ended_well
    assert suite.summary([part], 1)[-1] == "0 passed, 0 failed, 0 skipped in 1s"


def test_parts_of_all_phases_run_and_are_reported_in_their_order() -> None:
    command = [sys.executable, "-c", "print('======= 1 passed in 0.01s =======')"]
    reports = suite.run(command, suite.DEFAULT, ())
    assert [part.name for part in reports] == [part for phase in suite.DEFAULT for part in suite.PHASES[phase]]
    assert all(part.ended_well for part in reports)
    assert len(reports) > suite.PROCESSES


def test_what_has_passed_in_a_first_run_is_left_out_of_the_second(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('way', ['a b', 'c'])\n"
        "def test_passes(way): pass\n"
        "def test_needs_a_program(): 'program' in os.environ or pytest.skip('it is missing')\n"
        "def test_works_elsewhere(tmp_path, monkeypatch): monkeypatch.chdir(tmp_path)\n"
    )

    def run(**environment: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--passed=passed"]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()[-1]

    assert run().startswith("3 passed, 1 skipped in ")
    assert run(program="1").startswith("1 passed, 3 deselected in ")


def test_every_test_is_in_one_part_of_the_default_phases() -> None:
    parts = [words for phase in suite.DEFAULT for words in suite.PHASES[phase].values()]
    for file in Path("tests").rglob("test_*.py"):
        running = [words for words in parts if _collects(words, str(file))]
        assert len(running) == 1, f"{file} is in {len(running)} parts"


def _collects(words: tuple[str, ...], file: str) -> bool:
    def below(word: str) -> bool:
        return file.startswith(f"{word}/")

    ignored = [word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")]
    return any(map(below, words)) and not any(map(below, ignored))


def test_optional_programs_are_hidden_and_all_others_are_there(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("crun", "kubectl", "kubectl.1.31", "sed"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    folder = tmp_path / "links"
    folder.mkdir()
    bare.link_others(folder, str(programs), bare.OPTIONAL)
    assert [link.name for link in folder.iterdir()] == ["sed"]


def test_a_command_runs_without_optional_programs_and_hands_on_its_status() -> None:
    look = (
        f"import os, sys; sys.exit(3 if os.environ['{bare.HIDDEN}'] and not os.getenv('CATHEDRA_REQUIRE_ALL') else 0)"
    )
    done = subprocess.run(
        [sys.executable, bare.__file__, sys.executable, "-c", look],
        env={**os.environ, "CATHEDRA_REQUIRE_ALL": "1"},
        check=False,
    )
    assert done.returncode == 3
