"""Sockets that appear in and vanish from the registration directory."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra.clock import SystemClock
from cathedra.node.plugins import sockets
from cathedra.node.plugins.sockets import SocketWatcher

Change = tuple[str, int | None]


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@asynccontextmanager
async def watching(root: Path) -> AsyncIterator[asyncio.Queue[Change]]:
    changes: asyncio.Queue[Change] = asyncio.Queue()
    watcher = SocketWatcher(root, lambda path, number: changes.put_nowait((path.name, number)), clock=SystemClock())
    task = asyncio.ensure_future(watcher.run())
    try:
        async with asyncio.timeout(120):
            yield changes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(params=["told by the kernel", "looked for"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "looked for":

        def none() -> None:
            raise OSError("no inotify")

        monkeypatch.setattr(sockets, "Inotify", none)


@pytest.mark.usefixtures("way")
async def test_sockets_are_reported_as_they_come_and_go(tmp_path: Path) -> None:
    listen(tmp_path / "a.sock")
    async with watching(tmp_path) as changes:
        assert await changes.get() == ("a.sock", 1)
        listen(tmp_path / "b")
        assert await changes.get() == ("b", 2)
        (tmp_path / "a.sock").unlink()
        assert await changes.get() == ("a.sock", None)


@pytest.mark.usefixtures("way")
async def test_a_socket_in_a_new_directory_is_found(tmp_path: Path) -> None:
    async with watching(tmp_path) as changes:
        (tmp_path / "deep" / "er").mkdir(parents=True)
        listen(tmp_path / "deep" / "er" / "x.sock")
        assert await changes.get() == ("x.sock", 1)


async def test_files_and_hidden_names_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "file.sock").write_text("")
    (tmp_path / ".hidden").mkdir()
    listen(tmp_path / ".a.sock")
    listen(tmp_path / ".hidden" / "b.sock")
    listen(tmp_path / "c.sock")
    async with watching(tmp_path) as changes:
        assert await changes.get() == ("c.sock", 1)
        assert changes.empty()


async def test_a_socket_that_was_made_again_is_another(tmp_path: Path) -> None:
    listen(tmp_path / "a.sock")
    async with watching(tmp_path) as changes:
        assert await changes.get() == ("a.sock", 1)
        (tmp_path / "a.sock").unlink()
        listen(tmp_path / "a.sock")

        while (last := await changes.get()) == ("a.sock", None):
            pass
        assert last == ("a.sock", 2)


@pytest.mark.usefixtures("way")
async def test_sockets_are_found_in_a_directory_that_was_removed_and_made_again(tmp_path: Path) -> None:
    root = tmp_path / "plugins_registry"
    async with watching(root) as changes:
        await asyncio.sleep(0)
        listen(root / "a.sock")
        assert await changes.get() == ("a.sock", 1)
        shutil.rmtree(root)
        assert await changes.get() == ("a.sock", None)
        root.mkdir(exist_ok=True)
        listen(root / "a.sock")
        assert await changes.get() == ("a.sock", 2)


async def test_a_socket_that_is_moved_away_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "plugins_registry"
    root.mkdir()
    listen(root / "a.sock")
    async with watching(root) as changes:
        assert await changes.get() == ("a.sock", 1)
        (root / "a.sock").rename(tmp_path / "elsewhere")
        assert await changes.get() == ("a.sock", None)
