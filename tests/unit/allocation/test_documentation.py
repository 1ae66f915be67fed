"""The examples in docs/allocator.md, docs/allocation-search.md and in docstrings work."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from cathedra.allocation import cluster

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(("page", "least"), [("allocator.md", 6), ("allocation-search.md", 1)])
def test_the_examples_of_a_page_run_one_after_the_other(page: str, least: int) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= least
    names: dict[str, Any] = {}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(DOCS / page), "exec"), names)


def test_the_examples_of_the_cluster_module_hold() -> None:
    assert doctest.testmod(cluster).failed == 0
