"""The examples in docs/allocator.md and in docstrings work."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

from cathedra.allocation import cluster

PAGE = Path(__file__).parents[3] / "docs" / "allocator.md"


def test_the_examples_of_the_page_run_one_after_the_other() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, Any] = {}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(PAGE), "exec"), names)


def test_the_examples_of_the_cluster_module_hold() -> None:
    assert doctest.testmod(cluster).failed == 0
