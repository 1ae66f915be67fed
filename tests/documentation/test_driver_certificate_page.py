"""The certificate in the documents is what the check writes for the example driver, and the workflow is valid."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from cathedra.cli.main import main
from cathedra.drivercheck.checks import CHECKS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "driver-certificate.md").read_text(encoding="utf-8")
WORKFLOW = ROOT / "examples" / "driver-ci" / "driver-check.yaml"


def test_the_committed_report_and_badge_are_those_of_the_example_driver(tmp_path: Path) -> None:
    driver = f"{sys.executable} -m cathedra.cli.main driver --profile mig"
    files = {suffix: tmp_path / f"report.{suffix}" for suffix in ("html", "svg")}
    options = (f"--html={files['html']}", f"--badge={files['svg']}", "--nodes=2", f"--upgrade-from={driver}")
    assert main(["driver-check", *options, "--", *driver.split()]) == 0
    for suffix, path in files.items():
        assert path.read_text() == (ROOT / "docs" / "certificates" / f"gpu.example.com.{suffix}").read_text()


def test_every_check_on_the_page_exists() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)
    assert rows
    assert set(rows) <= {check.name for check in CHECKS}


def test_the_workflow_calls_the_check_as_its_options_are(capsys: pytest.CaptureFixture[str]) -> None:
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    (command,) = [step["run"] for step in job["steps"] if "driver-check" in step.get("run", "")]
    program, *words = command.split()
    assert program == "cathedra"
    # With --list in it the line is parsed as a whole, and nothing is started.
    assert main([words[0], "--list", *words[1:]]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CHECKS)
