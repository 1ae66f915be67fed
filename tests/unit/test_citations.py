"""Citations of the specifications: one form, and every section that is cited exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPECIFICATIONS = sorted((ROOT / "docs" / "spec").glob("*.md"))
NAMES = "|".join(path.stem for path in SPECIFICATIONS if path.stem != "index")
SOURCES = [path for folder in ("src", "tests", "benchmarks", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]

SECTION = r"(?:[A-F]|[A-F]?\.?\d+(?:\.\d+)*[a-z]?)"
CITATION = re.compile(rf"docs/spec/(?P<name>{NAMES})\.md(?P<sections>(?:(?:,? |, and | and | to )§{SECTION})*)")
OTHER_FORM = re.compile(rf"(?<![\w/-])(?:spec/)?(?:{NAMES})\.md,? (?:sections? )?(?:§|\d|[A-F]\.\d)")
HEADING = re.compile(r"^#{2,4} (?:Appendix )?(?P<section>[A-F](?=[.: ])(?:\.\d+)?|\d+(?:\.\d+)*[a-z]?)", re.MULTILINE)


@cache
def sections(name: str) -> frozenset[str]:
    text = (ROOT / "docs" / "spec" / f"{name}.md").read_text()
    return frozenset(match["section"] for match in HEADING.finditer(text))


def joined(text: str) -> str:
    """The text with the line breaks of docstrings and comments taken out."""
    return re.sub(r"\s*\n\s*(?:#:? )?", " ", text)


def cited(text: str) -> Iterator[tuple[str, str]]:
    for match in CITATION.finditer(joined(text)):
        for section in re.findall(rf"§({SECTION})", match["sections"]):
            yield match["name"], section


def test_there_are_citations() -> None:
    """Otherwise the tests below would check nothing."""
    assert sum(1 for path in SOURCES for _ in cited(path.read_text())) > 400
    assert {"3", "3.2", "B", "B.1"} <= sections("api")


def test_every_cited_section_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: docs/spec/{name}.md §{section}"
        for path in SOURCES
        for name, section in cited(path.read_text())
        if section not in sections(name)
    ]
    assert not missing


def test_citations_have_one_form() -> None:
    """``docs/spec/NAME.md §X``, so that a reader can open the file and this test can look for the section."""
    others = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in SOURCES
        if path != Path(__file__)
        for found in OTHER_FORM.findall(joined(path.read_text()))
    ]
    assert not others
