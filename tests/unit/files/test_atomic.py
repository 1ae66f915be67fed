"""Replacing a file in one step."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cathedra.files import atomic
from cathedra.files.atomic import replacement, write_atomic, write_durable


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("write", [write_atomic, write_durable])
def test_the_content_and_the_mode_are_what_was_asked_for_whatever_the_umask(
    tmp_path: Path, write: Callable[..., None]
) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path / "f", b"content", mode=0o644)
    finally:
        os.umask(before)
    assert (tmp_path / "f").read_bytes() == b"content"
    assert mode_of(tmp_path / "f") == 0o644
    assert os.listdir(tmp_path) == ["f"]


def test_a_failure_leaves_the_old_content_and_no_other_file(tmp_path: Path) -> None:
    write_atomic(tmp_path / "f", b"old")

    def fail_half_way() -> None:
        with replacement(tmp_path / "f", mode=0o600) as descriptor:
            os.write(descriptor, b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_durable_write_syncs_the_file_then_renames_it_then_syncs_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        steps.append("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        real_fsync(descriptor)

    def replace(source: Path, target: Path) -> None:
        steps.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(atomic.os, "fsync", fsync)
    monkeypatch.setattr(atomic.os, "replace", replace)
    write_durable(tmp_path / "f", b"content")
    assert steps == ["sync file", "rename", "sync directory"]


def test_many_writers_at_a_time_never_mix_their_contents(tmp_path: Path) -> None:
    contents = [bytes([65 + number]) * 100_000 for number in range(8)]
    threads = [threading.Thread(target=write_atomic, args=(tmp_path / "f", content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "f").read_bytes() in contents
    assert os.listdir(tmp_path) == ["f"]
