"""Paths inside volumes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from cathedra.node.setup.errors import ContainerConfigError
from cathedra.node.setup.subpaths import make_subpath


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir()
    made = tmp_path / "volume"
    made.mkdir()
    made.chmod(0o2770)
    return made


def test_missing_directories_are_made_with_the_volumes_permissions(volume: Path) -> None:
    assert make_subpath(volume, "a//b/./c") == str(volume / "a" / "b" / "c")
    for part in ("a", "a/b", "a/b/c"):
        assert (volume / part).stat().st_mode & 0o7777 == 0o2770
    assert make_subpath(volume, "a/b") == str(volume / "a" / "b")


def test_a_file_may_be_mounted(volume: Path) -> None:
    (volume / "file").write_text("x")
    assert make_subpath(volume, "file") == str(volume / "file")
    with pytest.raises(OSError, match="Not a directory"):
        make_subpath(volume, "file/below")


def test_links_that_stay_inside_are_followed(volume: Path) -> None:
    (volume / "releases" / "7").mkdir(parents=True)
    (volume / "current").symlink_to("releases/latest")
    (volume / "releases" / "latest").symlink_to("../releases/7")
    assert make_subpath(volume, "current/data") == str(volume / "releases" / "7" / "data")


def test_no_descriptor_is_left_open(volume: Path) -> None:
    (volume / "way").symlink_to("/etc")
    before = len(os.listdir("/proc/self/fd"))
    for part in ("a/b/c", "way/x", "way"):
        with contextlib.suppress(ContainerConfigError):
            make_subpath(volume, part)
    assert len(os.listdir("/proc/self/fd")) == before
