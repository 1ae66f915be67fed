"""Small files, on disk and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.driver import DiskFiles, Files, MemoryFiles


@pytest.fixture(params=[DiskFiles, MemoryFiles])
def files(request: pytest.FixtureRequest) -> Files:
    made: Files = request.param()
    return made


async def test_files_are_written_replaced_listed_and_removed(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    assert files.read(path) is None
    assert files.names(tmp_path / "a") == ()
    files.write(path, b"1")
    await files.write_durably(path, b"2")
    files.write(tmp_path / "a" / "c" / "d", b"")
    assert files.read(path) == b"2"
    assert files.names(tmp_path / "a") == ("b.json", "c")
    files.remove(path)
    files.remove(path)
    assert files.names(tmp_path / "a") == ("c",)
    files.remove_tree(tmp_path / "a")
    files.remove_tree(tmp_path / "a")
    assert files.names(tmp_path / "a") == ()


def test_container_runtimes_may_read_what_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "cdi" / "x.json"
    DiskFiles().write(path, b"{}")
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.parent.stat().st_mode & 0o755 == 0o755
