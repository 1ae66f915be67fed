"""Waiting for a condition over files."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from cathedra.files import waiting
from cathedra.files.waiting import wait_for_files


@pytest.fixture(params=["told by the kernel", "looked for"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "looked for":

        def none() -> None:
            raise OSError("no inotify")

        monkeypatch.setattr(waiting, "Inotify", none)
        monkeypatch.setattr(waiting, "_POLL_SECONDS", 0.01)


async def begun(path: Path) -> asyncio.Task[None]:
    """A task that waits until ``path`` is gone."""
    task = asyncio.ensure_future(wait_for_files(lambda: not path.exists(), (path.parent, path.parent.parent)))
    await asyncio.sleep(0.05)
    assert not task.done()
    return task


@pytest.mark.usefixtures("way")
async def test_a_condition_that_holds_is_not_waited_for(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        await wait_for_files(lambda: True, (tmp_path / "none",))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("removed", ["file", "directory", "moved directory"])
async def test_a_removal_is_noticed(tmp_path: Path, removed: str) -> None:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    path.touch()
    task = await begun(path)
    match removed:
        case "file":
            path.unlink()
        case "directory":
            shutil.rmtree(path.parent)
        case _:
            path.parent.rename(tmp_path / "elsewhere")
    async with asyncio.timeout(60):
        await task


@pytest.mark.usefixtures("way")
async def test_a_directory_that_comes_later_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    task = asyncio.ensure_future(wait_for_files(path.exists, (path.parent, path.parent.parent)))
    await asyncio.sleep(0.05)
    path.parent.mkdir()
    await asyncio.sleep(0.05)
    path.touch()
    async with asyncio.timeout(60):
        await task


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_wait_that_is_cancelled_leaves_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    before = descriptors()
    task = await begun(path)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert descriptors() == before
