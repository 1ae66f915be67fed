"""The report: open differences, declared deviations, and what could not be compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.follow.__main__ import SUBJECTS, main
from tools.follow.report import Declared, Difference, Report, read_declared, written

from tests.follow.checkout import write

ONE = Difference("gates", "DRAChair", "BETA on", "has no such gate", "pkg/features/kube_features.go")


def test_a_declared_deviation_is_counted_and_not_listed() -> None:
    report = Report("1.38")
    report.add([ONE], [Declared("gates", ("DRA*",), "no chairs here")])
    assert "DRAChair" not in written(report)
    assert written(report).endswith("0 differences to Kubernetes 1.38, 1 declared deviations")
    assert "1 × no chairs here" in written(report, names_declared=True)


def test_a_deviation_of_another_release_or_subject_does_not_cover_a_difference() -> None:
    for declared in (Declared("gates", ("*",), "why", ("1.37",)), Declared("fields", ("*",), "why")):
        report = Report("1.38")
        report.add([ONE], [declared])
        assert report.open == [ONE]


def test_a_difference_is_listed_with_the_file_that_shows_it() -> None:
    report = Report("1.38")
    report.add([ONE], [])
    lines = written(report).splitlines()
    assert lines[0] == "gates: pkg/features/kube_features.go"
    assert lines[1] == "  DRAChair: Kubernetes BETA on; Cathedra has no such gate"


def test_every_declared_deviation_has_a_known_subject_and_a_reason() -> None:
    rows = read_declared()
    assert rows
    for row in rows:
        assert row.subject in SUBJECTS
        assert row.names
        assert len(row.reason) > 20


def test_subjects_without_their_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "kubernetes-1.36", "README.md", "")
    assert main([str(tmp_path / "kubernetes-1.36")]) == 0
    printed = capsys.readouterr().out
    assert all(f"not compared: {subject}" in printed for subject in SUBJECTS)


def test_a_release_that_cathedra_does_not_know_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "kubernetes-1.99", "README.md", "")
    assert main([str(tmp_path / "kubernetes-1.99")]) == 2
    assert "releases/table.py" in capsys.readouterr().err


def test_open_differences_are_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'field.Required(fldPath, "a chair must have a seat")\n'
    write(tmp_path / "kubernetes-1.36", "pkg/apis/resource/validation/validation.go", text)
    assert main([str(tmp_path / "kubernetes-1.36"), "--subject", "texts"]) == 1
    assert "a chair must have a seat" in capsys.readouterr().out
