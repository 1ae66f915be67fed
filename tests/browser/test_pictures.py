"""Pictures and pages of the command line in a browser: every width, light and dark, no violation of accessibility."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cathedra.insight import PlannedChanges, devices, explain, read_dump, simulate
from cathedra.insight.drawing.pages import explanation_html, page, simulation_html
from tests.browser.conftest import EXAMPLES

pytestmark = pytest.mark.asyncio(loop_scope="module")  # that of the browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    state = read_dump(EXAMPLES / "insight" / "cluster.yaml")
    drawn = devices(state).to_dict()
    explained = explain(state, "pod/train", namespace="team-a").to_dict()
    simulated = simulate(state, PlannedChanges(delete=["pod/notebook"], namespace="team-b")).to_dict()
    texts = {
        "explanation": page("explanation", explanation_html(explained, drawn)),
        "simulation": page("simulation", simulation_html(simulated, drawn)),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize("name", ["explanation", "simulation"])
async def test_a_page_fits_every_width_and_violates_nothing(browser: Any, pages: dict[str, Path], name: str) -> None:
    from axe_playwright_python.async_playwright import Axe

    # The page's own policy forbids the scripts of the test, too.
    context = await browser.new_context(bypass_csp=True)
    opened = await context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text))
    for width, scheme in ((400, "light"), (800, "dark"), (1600, "light")):
        await opened.set_viewport_size({"width": width, "height": 800})
        await opened.emulate_media(color_scheme=scheme)
        await opened.goto(pages[name].as_uri())
        assert await opened.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        results = await Axe().run(opened)
        assert [one["id"] for one in results.response["violations"]] == []
    assert problems == []
    await context.close()
