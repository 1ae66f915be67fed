"""Tests stand where the source stands: a module's own test is found by its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cathedra"
TESTS = ROOT / "tests" / "unit"
MIRRORED = (
    "allocation",
    "apiserver/authentication",
    "apiserver/custom",
    "apiserver/ownership",
    "apiserver/patches",
    "apiserver/subresources",
    "apiserver/verbs",
    "certificates",
    "claims",
    "controllers",
    "driver",
    "faultsim",
    "files",
    "kinds",
    "profiles",
    "releases",
    "scheduler",
    "semantics",
    "testing",
)
"""Packages each of whose modules has a test of its own name."""


def modules(package: str) -> Iterator[Path]:
    """The modules of a package and of those in it, as paths below the source; a package may be one module."""
    if (module := SOURCE / f"{package}.py").exists():
        yield module.relative_to(SOURCE)
    for path in sorted((SOURCE / package).rglob("*.py")):
        if not path.name.startswith("__"):
            yield path.relative_to(SOURCE)


@pytest.mark.parametrize("package", MIRRORED)
def test_each_module_has_a_test_of_its_own_name(package: str) -> None:
    found = list(modules(package))
    assert found, f"there is no package {package}"
    missing = [str(path) for path in found if not (TESTS / path.parent / f"test_{path.name.lstrip('_')}").exists()]
    assert missing == []


@pytest.mark.parametrize("package", MIRRORED)
def test_a_test_of_a_modules_name_tests_something(package: str) -> None:
    for path in modules(package):
        text = (TESTS / path.parent / f"test_{path.name.lstrip('_')}").read_text()
        assert "def test_" in text, f"the test of {path} has no case"
