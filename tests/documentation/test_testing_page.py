"""The examples of docs/testing.md are a test file that passes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import cathedra

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_examples_of_the_page_are_tests_that_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "test_page.py").write_text("\n\n".join(blocks))
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["PYTHONPATH"] = str(Path(cathedra.__file__).parents[1])
    words = [
        "-p",
        "pytest_asyncio.plugin",
        "-p",
        "cathedra.testing.plugin",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-q",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_page.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout
