"""A browser, and the device map of dumps and clusters in it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.requirements import program

EXAMPLES = Path(__file__).parents[2] / "examples"
OpenMap = Callable[..., AbstractAsyncContextManager[Any]]


@contextmanager
def map_server(*options: str, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run ``kubectl dra map`` and yield its address."""
    command = [sys.executable, "-m", "cathedra.cli.dra.main", "map", *options]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(environment or {})}
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None, "it does not start"
        yield found[0]
    finally:
        server.terminate()
        server.wait(timeout=30)


async def until(page: Any, expression: str) -> None:
    """Wait until an expression of JavaScript is true. The page's policy forbids the browser to do the waiting: it would
    evaluate a string there."""
    async with asyncio.timeout(30):
        while not await page.evaluate(expression):  # noqa: ASYNC110 - a page sets no event
            await asyncio.sleep(0.05)


class OpenPage:
    """A page, with what the browser has reported about it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.hosts.add(re.sub(r"^(\w+:(?://[^/]*)?).*", r"\1", request.url)))

    async def panel(self, name: str) -> Any:
        """Open a panel and return it."""
        await self.page.get_by_role("tab", name=name, exact=True).click()
        return self.page.get_by_role("tabpanel")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Any]:
    """A browser for all tests of a module: its start takes longer than most tests."""
    path = program("chromium")
    # The package has no wheel for a Python that is not released yet.
    api = pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install playwright")
    async with api.async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def browser(chromium: Any) -> AsyncIterator[Any]:
    """The browser, without a page before and after the test."""
    yield chromium
    for context in chromium.contexts:
        await context.close()


@pytest.fixture(scope="module")
def example_server() -> Iterator[Callable[[Path], str]]:
    """Returns the address of the map of a dump among the examples; a module has one server for each."""
    with ExitStack() as servers:
        yield cache(lambda dump: servers.enter_context(map_server("--dump", str(dump))))


@pytest.fixture
def open_map(browser: Any, example_server: Callable[[Path], str]) -> OpenMap:
    """Open the map at an address, or of a dump; when it is left, nothing may have gone wrong in it."""

    def serving(dump: Path | str) -> AbstractContextManager[str]:
        if isinstance(dump, str):
            return nullcontext(dump)
        return nullcontext(example_server(dump)) if EXAMPLES in dump.parents else map_server("--dump", str(dump))

    @asynccontextmanager
    async def opened(
        dump: Path | str, *, width: int = 1280, height: int = 800, dark: bool = False
    ) -> AsyncIterator[OpenPage]:
        with serving(dump) as address:
            context = await browser.new_context(
                viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
            )
            found = OpenPage(await context.new_page())
            await found.page.goto(address)
            await found.page.wait_for_selector("canvas")
            yield found
            assert found.problems == []
            assert found.hosts == {address.partition("/#")[0]}, "no other host is asked for anything"
            await context.close()

    return opened
