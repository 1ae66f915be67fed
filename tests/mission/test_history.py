"""The table of statements: each row has its test, and each test of a document has its row."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
HISTORY = (HERE.parent.parent / "docs" / "history.md").read_text()
CELL = re.compile(r"(test_[a-z0-9_]+) \|$", re.MULTILINE)
CONTEXTS = {"test_driver"}
"""What is called like a test and is the test driver."""


def played_in(module: str) -> set[str]:
    return set(re.findall(r"def (test_\w+)\(", (HERE / module).read_text())) - CONTEXTS


def test_every_statement_has_its_test_and_every_test_its_statement() -> None:
    for part in HISTORY.split("\n### ")[1:]:
        (module,) = re.findall(r"\(`(\w+\.py)`\)", part.partition("\n")[0])
        assert set(CELL.findall(part)) == played_in(module), module


def test_every_document_is_played() -> None:
    documents = {path.name for path in HERE.glob("test_0*.py")}
    assert documents == set(re.findall(r"`(test_0\w+\.py)`", HISTORY))
