"""The checks of a machine with a GPU end with one line where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_machine_without_a_gpu_is_one_line_and_exit_code_2() -> None:
    program = ROOT / "tools" / "gpu_check.py"
    found = subprocess.run([sys.executable, program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert found.stderr.startswith("gpu_check: ")
