"""Files that the node keeps as they should be."""

from __future__ import annotations

from pathlib import Path

from cathedra.node.setup.ownership import Owner
from cathedra.node.setup.payload import PayloadFile, write_payload


def files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_a_directory_holds_these_files_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    assert write_payload(tmp_path, [PayloadFile("a", b"1", 0o644), PayloadFile("deep/b", b"2", 0o400)], Owner())
    assert files(tmp_path) == {"a": b"1", "deep/b": b"2"}
    assert (tmp_path / "deep" / "b").stat().st_mode & 0o777 == 0o400


def test_what_is_right_is_left_alone(tmp_path: Path) -> None:
    wanted = [PayloadFile("a", b"1", 0o644)]
    write_payload(tmp_path, wanted, Owner())
    before = (tmp_path / "a").stat().st_ino
    assert not write_payload(tmp_path, wanted, Owner())
    assert (tmp_path / "a").stat().st_ino == before
    assert write_payload(tmp_path, [PayloadFile("a", b"2", 0o644)], Owner())
    assert (tmp_path / "a").stat().st_ino != before, "a reader of the old file keeps it"


def test_a_file_of_an_earlier_attempt_is_in_no_ones_way(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp").write_text("half")
    write_payload(tmp_path, [PayloadFile("a", b"1", 0o644)], Owner())
    assert files(tmp_path) == {"a": b"1"}
