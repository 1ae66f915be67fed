"""One process at a time, and none too few."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir, DataDirInUse


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
