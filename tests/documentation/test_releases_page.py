"""The page about releases agrees with the tables."""

from __future__ import annotations

from tools.release_table import PAGE, page


def test_the_page_about_releases_is_generated_from_the_tables() -> None:
    assert PAGE.read_text() == page(), "run python -m tools.release_table"
