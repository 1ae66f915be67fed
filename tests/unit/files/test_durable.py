"""A file replaced durably while the event loop goes on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from cathedra.files import durable
from cathedra.files.durable import DurableFile


class Disk:
    """Writes that wait until they are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.contents: list[bytes] = []
        self.started = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.error: OSError | None = None
        monkeypatch.setattr(durable, "write_durable", self._write)

    def _write(self, path: Path, content: bytes, *, mode: int) -> None:
        self.started.release()
        self.allowed.acquire()
        if self.error is not None:
            raise self.error
        self.contents.append(content)

    async def has_started(self) -> None:
        await asyncio.to_thread(self.started.acquire)


async def test_writes_that_wait_become_one_with_the_latest_content(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    file = DurableFile(Path("f"))
    async with asyncio.TaskGroup() as group:
        group.create_task(file.write(b"1"))
        await disk.has_started()
        for content in (b"2", b"3", b"4"):
            group.create_task(file.write(content))
        disk.allowed.release()
        disk.allowed.release()
    assert disk.contents == [b"1", b"4"]


async def test_a_cancelled_write_cannot_overtake_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    file = DurableFile(Path("f"))
    first = asyncio.create_task(file.write(b"old"))
    await disk.has_started()
    first.cancel()
    second = asyncio.create_task(file.write(b"new"))
    disk.allowed.release()
    disk.allowed.release()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert disk.contents == [b"old"]
    await second
    assert disk.contents == [b"old", b"new"]


async def test_a_failed_write_is_told_and_the_next_one_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.error = OSError(28, "No space left on device")
    disk.allowed.release()
    file = DurableFile(Path("f"))
    with pytest.raises(OSError, match="No space left"):
        await file.write(b"1")
    disk.error = None
    disk.allowed.release()
    await file.write(b"2")
    assert disk.contents == [b"2"]


async def test_the_file_is_on_disk_on_return(tmp_path: Path) -> None:
    await DurableFile(tmp_path / "f").write(b"content")
    assert (tmp_path / "f").read_bytes() == b"content"
