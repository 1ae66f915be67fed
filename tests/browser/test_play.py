"""The page without a server: from disk with the network off, and from a web server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tools import playground

from cathedra.cli.dra.main import main
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.requirements import pyodide_bundle

pytestmark = pytest.mark.asyncio(loop_scope="module")  # that of the browser
CLUSTER = EXAMPLES / "insight" / "cluster.yaml"
START_SECONDS = 90


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both pages."""
    folder = tmp_path_factory.mktemp("site")
    playground.site(folder / "play", pyodide_bundle())
    playground.single_page(folder / "cathedra.html", folder / "play")
    return folder


@pytest.fixture(scope="module")
def served(built: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(built))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@asynccontextmanager
async def opened(browser: Any, address: str, hosts: set[str]) -> AsyncIterator[Any]:
    """Open the page, wait until its engine is ready, and see at the end that nothing went wrong or out."""
    context = await browser.new_context(offline=address.startswith("file:"))
    found = OpenPage(await context.new_page())
    await found.page.goto(address)
    await found.page.wait_for_selector("#status:has-text('ready')", timeout=START_SECONDS * 1000)
    yield found.page
    assert found.problems == []
    # What the page makes itself has addresses of the browser.
    assert found.hosts - {"blob:", "data:"} == hosts
    await context.close()


async def asked(page: Any, question: str, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = await page.evaluate(f"engine.ask({json.dumps(question)}, {json.dumps(fields)})")
    return found


async def expect_on_screen(page: Any, selector: str) -> None:
    box = await page.locator(selector).bounding_box()
    assert box["y"] + box["height"] <= page.viewport_size["height"]


async def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    # A simulation has an event loop of its own.
    await asyncio.to_thread(main, [*words, "--dump", str(CLUSTER)])
    return capsys.readouterr().out.rstrip("\n").replace(str(CLUSTER), CLUSTER.name)


async def test_from_disk_without_a_network_it_answers_as_the_command_does(
    browser: Any,
    built: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    from axe_playwright_python.async_playwright import Axe

    async with opened(browser, f"file://{built}/cathedra.html", {"file://"}) as page:
        assert (await Axe().run(page)).response["violations"] == []
        await expect_on_screen(page, "button.example")
        await page.set_input_files("#load input[type=file]", str(broken))
        await page.wait_for_selector("#status.fault:has-text('broken.yaml')")
        await page.click("button.example")
        await page.wait_for_selector("canvas")
        explained = await asked(page, "explain", subject="pod/train", namespace="team-a", width=100)
        assert explained["text"].rstrip("\n") == await printed(capsys, "explain", "pod/train", "-n", "team-a")
        simulated = await asked(page, "simulate", addNodes=["2=node-0"], width=100)
        assert simulated["text"].rstrip("\n") == await printed(capsys, "simulate", "--add-nodes", "2=node-0")
        # Python cannot be interrupted: the worker is started again, with the same files.
        await page.evaluate("engine.cancel('given up')")
        assert (await asked(page, "summarize"))["devices"] == 12


@pytest.mark.parametrize(
    ("fragment", "shown"),
    [
        ("explain=pod/train&namespace=team-a", "request 'gpus' needs 3"),
        ("match=device.driver%20%3D%3D%20%22gpu.example.com%22", "matches 12 of 12 devices"),
        ("lint=mistakes.yaml", "2 objects: 1 error, 2 warnings"),
    ],
)
async def test_an_address_opens_an_example(browser: Any, served: str, fragment: str, shown: str) -> None:
    context = await browser.new_context()
    found = OpenPage(await context.new_page())
    await found.page.goto(f"{served}/play/#example=cluster.yaml&{fragment}")
    await found.page.get_by_text(shown).first.wait_for(timeout=START_SECONDS * 1000)
    assert found.problems == []
    assert found.hosts - {"blob:", "data:"} == {served}
    await context.close()


async def test_from_a_web_server_a_hostile_dump_runs_no_script_and_says_what_was_left_out(
    browser: Any, served: str, tmp_path: Path
) -> None:
    name = "<img src=x onerror=alert(1)>"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    large = {**node, "metadata": {"name": "large", "annotations": {"a": "x" * 10_000_000}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeSelector": {"no": "node"}}}
    dump = tmp_path / f"{name}.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, large, pod]}))
    async with opened(browser, f"{served}/play/", {served}) as page:
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        await page.set_input_files("#load input[type=file]", str(dump))
        await page.wait_for_selector("canvas", timeout=START_SECONDS * 1000)
        await page.get_by_text("longer than 3 MiB").first.wait_for()
        assert name in (await asked(page, "explain", width=100))["text"]
        assert await page.locator("img").count() == 0
        assert dialogs == []
