"""The note of the last revision beside a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.storage.revisionfile import RevisionFile, StoreInUse


@contextmanager
def held(path: Path) -> Iterator[RevisionFile]:
    file = RevisionFile(path)
    try:
        yield file
    finally:
        file.close()


def test_a_new_file_knows_no_revision_and_is_private(tmp_path: Path) -> None:
    with held(tmp_path / "r") as file:
        assert file.read() == 0
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5))
def test_the_last_revision_is_read_also_by_the_next_process(tmp_path: Path, revisions: list[int]) -> None:
    with held(tmp_path / "r") as file:
        for revision in revisions:
            file.note(revision)
        file.sync()
        assert file.read() == revisions[-1]
    with held(tmp_path / "r") as file:
        assert file.read() == revisions[-1]


def test_two_holders_are_one_too_many(tmp_path: Path) -> None:
    with held(tmp_path / "r"), pytest.raises(StoreInUse, match="in use by another process"):
        RevisionFile(tmp_path / "r")
    with held(tmp_path / "r"):
        pass


def test_a_damaged_note_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("many")
    with held(tmp_path / "r") as file, pytest.raises(StorageError, match="remove it to go on"):
        file.read()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("5")
    (tmp_path / "r").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        RevisionFile(tmp_path / "r")
