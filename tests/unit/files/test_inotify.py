"""Names that appear in directories, and leave them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.files.atomic import write_atomic
from cathedra.files.inotify import Inotify, Notification, is_removal, wait_for_files


@pytest.fixture
def inotify() -> Iterator[Inotify]:
    made = Inotify()
    yield made
    made.close()


def test_names_are_told_in_order_and_subdirectories_are_left_out(inotify: Inotify, tmp_path: Path) -> None:
    inotify.watch(tmp_path)
    assert list(inotify.read()) == []
    (tmp_path / "a").touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "below").touch()
    (tmp_path / "a").unlink()
    assert list(inotify.read()) == [
        Notification(tmp_path / "a", created=True, is_directory=False),
        Notification(tmp_path / "d", created=True, is_directory=True),
        Notification(tmp_path / "a", created=False, is_directory=False),
    ]


def test_a_directory_that_is_gone_is_no_longer_watched(inotify: Inotify, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    inotify.watch(tmp_path / "d")
    (tmp_path / "d").rmdir()
    assert list(inotify.read()) == []
    with pytest.raises(FileNotFoundError):
        inotify.watch(tmp_path / "d")


def test_a_directory_can_be_left_alone_again(inotify: Inotify, tmp_path: Path) -> None:
    inotify.watch(tmp_path)
    inotify.unwatch(tmp_path)
    inotify.unwatch(tmp_path / "never")
    (tmp_path / "a").touch()
    assert list(inotify.read()) == []


def test_writes_to_files_are_told_if_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    inotify = Inotify()
    try:
        inotify.watch(tmp_path, writes=True)
        path.write_bytes(b"y")
        assert {event.path for event in inotify.read()} == {path}
        path.rename(tmp_path / "c")
        assert [(event.path, event.created) for event in inotify.read()] == [(path, False), (tmp_path / "c", True)]
    finally:
        inotify.close()


@pytest.fixture(params=["told by the kernel", "looked for"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "looked for":

        def none() -> None:
            raise OSError("no inotify")

        monkeypatch.setattr("cathedra.files.inotify.Inotify", none)
        monkeypatch.setattr("cathedra.files.inotify._POLL_SECONDS", 0.01)


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


async def test_writes_do_not_wake_a_wait_for_removals(tmp_path: Path) -> None:
    """A driver writes several files for each claim into directories whose removals it waits for."""
    kept = tmp_path / "kept"
    kept.touch()
    evaluated: list[bool] = []

    def gone() -> bool:
        evaluated.append(kept.exists())
        return not kept.exists()

    waiting = asyncio.create_task(wait_for_files(gone, (tmp_path,), is_removal))
    seen = asyncio.create_task(wait_for_files(lambda: (tmp_path / "9").exists(), (tmp_path,)))
    await asyncio.sleep(0)
    for number in range(10):
        write_atomic(tmp_path / str(number), b"")
    await seen
    kept.unlink()
    await waiting
    assert evaluated == [True, False]


async def test_a_directory_that_is_deleted_and_made_again_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "kept").touch()
    appeared = False

    def gone() -> bool:
        return appeared and not (folder / "kept").exists()

    waiting = asyncio.create_task(wait_for_files(gone, (folder, tmp_path), is_removal))
    await asyncio.sleep(0)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "kept").touch()
    appeared = True
    (folder / "kept").unlink()
    await waiting
