"""One process at a time, and none too few."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import LONGEST_ROOT, DataDir, DataDirInUse, forget_short_root, short_root


def test_a_held_directory_is_refused_to_others_and_names_its_holder(tmp_path: Path) -> None:
    with DataDir(tmp_path).held():
        assert DataDir(tmp_path).holder() == os.getpid()
        with pytest.raises(DataDirInUse, match=str(os.getpid())), DataDir(tmp_path).held():
            raise AssertionError("held twice")


def test_a_released_directory_has_no_holder(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    with data.held():
        pass
    assert data.holder() is None
    with data.held():
        assert data.holder() == os.getpid()


def test_a_directory_never_used_has_no_holder(tmp_path: Path) -> None:
    assert DataDir(tmp_path / "none").holder() is None


def test_another_layout_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "layout").write_text("99\n")
    with pytest.raises(InvalidOption, match="layout '99'"), DataDir(tmp_path).held():
        raise AssertionError("held in spite of its layout")
    assert (tmp_path / "layout").read_text() == "99\n"


def test_what_is_not_the_clusters_is_never_removed(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    with data.held():
        pass
    for name in ("thesis.tex", "kubeconfig", "objects.sqlite-wal"):
        (tmp_path / name).touch()
    assert data.erase() == ("thesis.tex",)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_that_is_empty_then_goes_too(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    with data.held():
        pass
    assert data.erase() == ()
    assert not data.path.exists()


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
