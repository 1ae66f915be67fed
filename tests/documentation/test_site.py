"""The documentation as a site: navigation, generated reference, links, search from disk, no request to other hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import surface
from tools.handbook import errors, pictures
from tools.handbook.building import build, publish
from tools.handbook.commands import cathedra_page, kubectl_dra_page
from tools.handbook.facts import lint_page, metrics_page
from tools.handbook.links import broken_links
from tools.handbook.markdown import anchor, code
from tools.handbook.pythonapi import module_page
from tools.handbook.staging import ROOT, stage

from cathedra.cli.examples import EXAMPLES
from cathedra.insight.linting.report import RULES
from cathedra.releases.metrics import metrics
from tests.browser.conftest import OpenPage, browser, chromium  # noqa: F401 - the fixtures of a browser

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
PAGES = [*DOCUMENTS, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the site."""
    folder = tmp_path_factory.mktemp("staged")
    stage(folder)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="zensical is not installed: pip install zensical")
    folder = tmp_path_factory.mktemp("handbook")
    assert build(folder / "site", folder / "work") == []
    return folder / "site"


def navigation() -> list[str]:
    def pages(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for one in (entry if isinstance(entry, list) else entry.values()) for page in pages(one)]

    return pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])


def test_every_page_is_once_in_the_navigation(staged: Path) -> None:
    assert sorted(navigation()) == sorted(str(page.relative_to(staged)) for page in staged.rglob("*.md"))


def test_every_link_between_documents_leads_to_a_file() -> None:
    blocks = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
    text_of = {page: blocks.sub("code", page.read_text()) for page in PAGES}
    links = [(page, link) for page, text in text_of.items() for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)]
    assert len(links) > 300
    missing = [
        f"{page.relative_to(ROOT)}: {link}"
        for page, link in links
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert missing == []


def test_the_site_has_no_broken_link_and_search_works_from_disk(site: Path) -> None:
    # The fixture has checked the links; a change of the theme could load from other hosts again.
    assert broken_links(site, ("play/", "cathedra.html")) == []
    assert "shared counters" in (site / "search.js").read_text()


def test_what_make_site_has_built_is_kept(site: Path, tmp_path: Path) -> None:
    (tmp_path / "play").mkdir()
    (tmp_path / "play" / "index.html").write_text("the page")
    (tmp_path / "old.html").write_text("a page of the last build")
    publish(site, tmp_path)
    assert (tmp_path / "play" / "index.html").read_text() == "the page"
    assert (tmp_path / "index.html").exists()
    assert not (tmp_path / "old.html").exists()


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="here">A</h1><a href="#here">x</a><a href="b.html#there">x</a><a href="c.html">x</a>'
        '<a href="../d.html">x</a>'
        '<a href="https://kubernetes.io">x</a><img src="https://example.com/x.png"><link rel="stylesheet" href="e.css">'
    )
    (tmp_path / "b.html").write_text("<p>B</p>")
    assert broken_links(tmp_path) == [
        "a.html: b.html#there has no such anchor",
        "a.html: c.html does not exist",
        "a.html: ../d.html leads out of the site",
        "a.html: loads https://example.com/x.png from another host",
        "a.html: e.css does not exist",
    ]


def test_every_command_is_in_the_reference() -> None:
    headings = set(re.findall(r"^## (.+)$", cathedra_page() + kubectl_dra_page(), re.MULTILINE))
    known = {name.replace("cathedra dra ", "kubectl dra ") for name in EXAMPLES} - {"cathedra", "cathedra dra"}
    assert known <= headings


def test_options_of_a_command_are_in_its_table() -> None:
    page = kubectl_dra_page()
    assert "kubectl dra explain [OPTIONS] [KIND/NAME...]" in page
    assert f"| {code('--node NAME')} | consider this node only |" in page


@pytest.mark.parametrize("name", ["cathedra.insight", "cathedra.driver"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    listed = re.findall(rf"^{re.escape(name)}: (\w+)", surface.LIST.read_text(), re.MULTILINE)
    assert set(re.findall(r"^## (\w+)$", module_page(name), re.MULTILINE)) == set(listed)


def test_metrics_and_rules_are_in_the_reference() -> None:
    assert [name for name in metrics() if code(name) not in metrics_page()] == []
    assert [name for name in RULES if f"lint.md#{anchor(name)}" not in lint_page()] == []


def test_every_explained_message_is_in_the_sources() -> None:
    assert errors.missing_texts() == []


def test_every_generated_page_begins_with_its_title(staged: Path) -> None:
    pages = list((staged / "reference").rglob("*.md"))
    assert len(pages) > 20
    assert [page for page in pages if not page.read_text().startswith("# ")] == []


@pytest.mark.parametrize("name", sorted(pictures.PICTURES))
def test_a_picture_is_as_its_program_draws_it(name: str) -> None:
    text = (pictures.FOLDER / f"{name}.svg").read_text()
    assert text == pictures.drawn(name), "run: python -m tools.handbook.pictures"
    assert "prefers-color-scheme:dark" in text
    assert "<title" in text
    assert "href" not in text


@pytest.mark.parametrize(
    ("page", "fragment"),
    [
        ("tasks/on-call.md", "example=cluster.yaml&explain=pod/train&namespace=team-a"),
        ("lint.md", "example=cluster.yaml&lint=mistakes.yaml"),
        ("selectors.md", "example=cluster.yaml&match="),
    ],
)
def test_an_example_has_a_link_that_opens_it_in_the_page_without_a_server(
    staged: Path, page: str, fragment: str
) -> None:
    link = f'href="{"../" * page.count("/")}play/index.html#{fragment}'
    assert link in (staged / page).read_text()


@pytest.mark.asyncio(loop_scope="module")  # that of the browser
async def test_pages_from_disk_fit_every_width_and_load_nothing_from_elsewhere(browser: Any, site: Path) -> None:  # noqa: F811
    for width, scheme in ((400, "light"), (800, "dark"), (1600, "light")):
        context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        found = OpenPage(await context.new_page())
        for page in ("index", "concepts/partitions", "reference/kubectl-dra", "reference/evidence"):
            await found.page.goto((site / f"{page}.html").as_uri())
            assert await found.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page, width)
        if width == 1600:
            await found.page.get_by_role("button", name="Search").first.click()
            await found.page.get_by_placeholder("Search").fill("counters")
            await found.page.get_by_text(re.compile(r"^\d+ results$")).wait_for()
        assert found.problems == []
        assert {host for host in found.hosts if not host.startswith("file:")} <= {"data:", "blob:"}
        await context.close()
