"""The public Python API changes only on purpose: its list changes in the same commit."""

from __future__ import annotations

from pathlib import Path

from tools.surface import COMMAND, LIST, MODULES, surface

SOURCE = Path(__file__).parents[2] / "src" / "cathedra"


def test_the_public_api_is_the_one_that_is_listed() -> None:
    found, listed = surface(), LIST.read_text().splitlines()
    added, gone = sorted(set(found) - set(listed)), sorted(set(listed) - set(found))
    assert (added, gone) == ([], []), f"if users shall see this change, run: {COMMAND}"
    assert found == listed, f"run: {COMMAND}"


def test_no_private_module_is_public() -> None:
    assert [module for module in MODULES if "._" in module] == []


def test_private_modules_are_imported_in_their_own_package_alone() -> None:
    """A module ``_name`` is behind the façade of its package."""
    sources = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    strangers = []
    for path in sources:
        if path.stem.startswith("_") and not path.stem.startswith("__"):
            package = ".".join((SOURCE.name, *path.parent.relative_to(SOURCE).parts))
            statements = (f"from {package}.{path.stem} ", f"import {package}.{path.stem}")
            strangers += [
                f"{other.relative_to(SOURCE)} imports {package}.{path.stem}"
                for other, text in sources.items()
                if not other.is_relative_to(path.parent) and any(statement in text for statement in statements)
            ]
    assert strangers == []
