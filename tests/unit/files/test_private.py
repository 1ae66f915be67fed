"""Directories and files for this user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cathedra.files.private import NotPrivate, files_in_memory, private_directory, private_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_directories_are_made_closed(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private_directory(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a") == 0o700
    assert mode_of(tmp_path / "a" / "b") == 0o700


def test_an_open_directory_is_closed_and_its_parent_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "a").mkdir(mode=0o755)
    private_directory(tmp_path / "a")
    assert mode_of(tmp_path / "a") == 0o700
    assert mode_of(tmp_path) == 0o755


def test_a_file_in_the_directorys_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(NotPrivate):
        private_directory(tmp_path / "a")


def test_a_directory_that_all_users_share_is_refused_and_not_closed(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(NotPrivate):
        private_directory(shared)
    assert mode_of(shared) == 0o1777


def test_an_open_file_is_closed(tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0o644)
    private_file(tmp_path / "f")
    assert mode_of(tmp_path / "f") == 0o600


def test_a_missing_file_stays_missing(tmp_path: Path) -> None:
    assert not private_file(tmp_path / "f").exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").touch(mode=0o644)
    (tmp_path / "f").symlink_to(tmp_path / "target")
    with pytest.raises(NotPrivate):
        private_file(tmp_path / "f")
    assert mode_of(tmp_path / "target") == 0o644


def test_a_device_keeps_its_permissions() -> None:
    """An audit log that goes to /dev/null must not take it away from the machine's other users."""
    before = stat.S_IMODE(os.stat("/dev/null").st_mode)
    assert private_file(Path("/dev/null")) == Path("/dev/null")
    assert stat.S_IMODE(os.stat("/dev/null").st_mode) == before


def test_files_in_memory_need_no_directory_and_end_with_their_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/no/such/directory")
    with files_in_memory(b"certificate", b"key") as (certificate, key):
        for _ in range(2):
            assert (certificate.read_bytes(), key.read_bytes()) == (b"certificate", b"key")
    assert not certificate.exists()
    assert not key.exists()
