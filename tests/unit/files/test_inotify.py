"""Names that appear in directories, and leave them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.files.inotify import Inotify, Notification


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
