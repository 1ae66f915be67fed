"""Sets of characters, and the tables of Unicode."""

from __future__ import annotations

import pytest

from cathedra.cel.regex import classes
from cathedra.cel.regex.engine import installed_engines


def test_a_complement_contains_everything_else() -> None:
    letters = classes.single(0x61, 0x7A)
    others = classes.except_for(letters)
    assert not any(classes.contains(letters, point) == classes.contains(others, point) for point in range(0x100))
    assert classes.except_for(others) == letters
    assert classes.except_for(classes.except_for(classes.ANY)) == classes.ANY


def test_a_fold_contains_all_characters_of_other_case() -> None:
    assert all(classes.contains(classes.folded(classes.single(ord("k"))), ord(other)) for other in "kKK")


@pytest.mark.skipif("google-re2" not in installed_engines(), reason="google-re2 is not installed")
@pytest.mark.parametrize("name", ["L", "Lu", "Nd", "P", "Zs", "Greek", "Han", "SignWriting", "Inherited"])
def test_the_tables_are_those_of_re2(name: str) -> None:
    import re2

    text = "".join(chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000)
    theirs = {character for run in re2.findall(f"\\p{{{name}}}+", text) for character in run}
    characters = classes.named(name)
    assert characters is not None
    ours = {chr(point) for low, end in zip(characters[::2], characters[1::2], strict=True) for point in range(low, end)}
    assert ours == theirs
