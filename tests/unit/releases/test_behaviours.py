"""Differences between releases have names, and releases are written down in one package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.releases import RELEASES, Behaviour, FeatureGates, behaviours, classic, order

SOURCE = Path(__file__).parents[3] / "src" / "cathedra"
TEXTS = {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
OTHERS = {path: text for path, text in TEXTS.items() if not path.startswith(("releases/", "_proto/"))}
USED = set(re.findall(r"\b(?:behaviours|classic)\.(\w+)", "\n".join(TEXTS.values())))
RELEASE = re.compile(r"v?1\.(2[6-9]|[3-9]\d)(\.\d+)?")
PAIR = re.compile(r"\b1,\s*\d\d")
OLDEST_MINOR = 26

DECLARED = {
    name: one for module in (behaviours, classic) for name, one in vars(module).items() if isinstance(one, Behaviour)
}


def literals(tree: ast.Module) -> Iterator[str]:
    """The releases that a module writes as ``"1.36"`` or ``(1, 36)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and RELEASE.fullmatch(node.value):
            yield f"line {node.lineno}: {node.value}"
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            major, minor = (element.value if isinstance(element, ast.Constant) else None for element in node.elts)
            if major == 1 and isinstance(minor, int) and minor >= OLDEST_MINOR:
                yield f"line {node.lineno}: (1, {minor})"


def test_releases_are_written_in_no_other_package() -> None:
    """A new release would otherwise be a search through the whole source."""
    # Parsing all modules would take three seconds.
    suspected = {path: text for path, text in OTHERS.items() if RELEASE.search(text) or PAIR.search(text)}
    found = {path: list(literals(ast.parse(text))) for path, text in suspected.items()}
    assert {path: places for path, places in found.items() if places} == {}


def test_no_other_package_declares_a_behaviour() -> None:
    """`FeatureGates.has` knows those of this package alone: another one would hold in no release."""
    assert [path for path, text in OTHERS.items() if re.search(r"\bBehaviour\(\s*\"", text)] == []


def test_nothing_depends_on_the_newest_release() -> None:
    """Code that does would take another path in all clusters on the day a release is added."""
    compared = re.compile(r"[!=]= NEWEST\b|\bNEWEST [!=]=")
    assert [path for path, text in OTHERS.items() if compared.search(text)] == []


@pytest.mark.parametrize("name", DECLARED)
def test_a_behaviour_is_described_and_holds_in_some_releases_but_not_in_all(name: str) -> None:
    behaviour = DECLARED[name]
    holds = [behaviour.holds_in(release) for release in RELEASES]
    assert behaviour.about.endswith(".")
    assert behaviour.source
    assert any(holds)
    assert not all(holds)


@pytest.mark.parametrize("name", DECLARED)
def test_a_behaviour_is_used(name: str) -> None:
    assert name in USED


def test_gates_have_the_behaviours_of_their_release() -> None:
    for release in RELEASES:
        gates = FeatureGates.for_release(release)
        expected = order("1.33") <= order(release) <= order("1.34")
        assert gates.has(behaviours.TAINT_RULES_MERGED) is expected
