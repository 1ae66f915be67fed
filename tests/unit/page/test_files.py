"""The page consists of its own files alone."""

from __future__ import annotations

import re
from pathlib import Path

from cathedra.page.server import static_files

STATIC = Path(__file__).parents[3] / "src" / "cathedra" / "page" / "static"


def test_all_files_of_the_page_are_served() -> None:
    served = static_files()
    assert served["/"] == served["/index.html"]
    for file in STATIC.rglob("*"):
        if file.is_file():
            assert served[f"/{file.relative_to(STATIC)}"].body == file.read_bytes()


def test_the_page_is_small() -> None:
    assert sum(len(one.body) for one in static_files().values()) < 200_000


def test_imports_and_links_lead_to_its_own_files() -> None:
    served = static_files()
    for path, file in served.items():
        if not path.endswith((".js", ".html", ".css")) or "/vendor/" in path:
            continue
        text = file.body.decode()
        assert "http://" not in text.replace("http://www.w3.org/", ""), path
        assert "https://" not in text, path
        folder = path.rpartition("/")[0]
        for target in re.findall(r'from "(\.[^"]+)"', text):
            assert str((STATIC / folder.lstrip("/") / target).resolve().relative_to(STATIC)) in {
                one.lstrip("/") for one in served
            }, f"{path} imports {target}"


def test_no_markup_is_made_of_texts() -> None:
    """Texts of a cluster reach the page as text nodes and attributes of templates, never as markup."""
    for file in STATIC.rglob("*.js"):
        if "vendor" not in file.parts:
            assert not re.search(r"innerHTML|insertAdjacent|document\.write|unsafeHTML|eval\(", file.read_text()), file
