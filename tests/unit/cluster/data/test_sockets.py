"""Short names for data directories with long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.sockets import LONGEST_ROOT, forget_short_root, short_root


def test_a_short_directory_is_its_own_root(tmp_path: Path) -> None:
    data = Path("/d")
    assert short_root(data, {"XDG_RUNTIME_DIR": str(tmp_path)}) == data
    forget_short_root(data, {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_a_long_directory_is_reached_through_a_link_of_the_same_name_each_time(tmp_path: Path) -> None:
    surroundings = {"XDG_RUNTIME_DIR": str(tmp_path)}
    data = tmp_path / ("x" * LONGEST_ROOT)
    data.mkdir()
    link = short_root(data, surroundings)
    assert link.resolve() == data
    assert short_root(data, surroundings) == link
    forget_short_root(data, surroundings)
    assert not link.is_symlink()
    assert data.exists()


def test_a_foreign_file_is_not_taken_for_the_link(tmp_path: Path) -> None:
    surroundings = {"XDG_RUNTIME_DIR": str(tmp_path)}
    data = tmp_path / ("x" * LONGEST_ROOT)
    link = short_root(data, surroundings)
    link.unlink()
    link.write_text("mine")
    with pytest.raises(InvalidOption, match="is in the way of a short name"):
        short_root(data, surroundings)
    forget_short_root(data, surroundings)
    assert link.read_text() == "mine"
