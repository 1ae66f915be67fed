"""The log of a container in the format of the container runtime interface."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.node.shim import logfile
from cathedra.node.shim.logfile import LogFile

LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([PF]) ([^\n]*)\n")


def entries(path: Path) -> list[tuple[bytes, bytes, bytes]]:
    """Stream, tag and text of each line; every byte of the file belongs to one."""
    data = path.read_bytes()
    assert b"".join(match[0] for match in LINE.finditer(data)) == data
    return [(match[2], match[3], match[4]) for match in LINE.finditer(data)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"\n")), max_size=8))
def test_nothing_is_lost_however_the_output_arrives(tmp_path: Path, pieces: list[bytes]) -> None:
    path = tmp_path / "0.log"
    path.unlink(missing_ok=True)
    log = LogFile(str(path))
    for piece in pieces:
        log.write("stdout", piece)
    log.finish("stdout")
    log.close()
    found = entries(path)
    assert b"".join(text + (b"\n" if tag == b"F" else b"") for _, tag, text in found) == b"".join(pieces)


def test_an_unfinished_line_waits_for_its_end_and_streams_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogFile(str(path))
    log.write("stdout", b"one ")
    log.write("stderr", b"err\n")
    assert entries(path) == [(b"stderr", b"F", b"err")]
    log.write("stdout", b"two\n")
    log.close()
    assert entries(path)[1:] == [(b"stdout", b"F", b"one two")]


def test_a_long_line_is_cut_into_parts(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogFile(str(path))
    log.write("stdout", b"x" * 40_000 + b"\n")
    log.close()
    assert [(tag, len(text)) for _, tag, text in entries(path)] == [(b"P", 16384), (b"P", 16384), (b"F", 7232)]


def test_a_log_that_grows_too_large_begins_anew_and_old_ones_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "ROTATE_BYTES", 100)
    seconds = iter(range(100))
    monkeypatch.setattr(logfile.time, "strftime", lambda form, _=None: f"{form}{next(seconds):04}")
    log = LogFile(str(tmp_path / "0.log"))
    for _ in range(8):
        log.write("stdout", b"x" * 100 + b"\n")
    log.close()
    assert len(list(tmp_path.glob("0.log.*"))) == 4
    assert (tmp_path / "0.log").stat().st_size == 0


def test_a_log_goes_on_where_an_earlier_shim_ended(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for text in (b"one\n", b"two\n"):
        log = LogFile(str(path))
        log.write("stdout", text)
        log.close()
    assert [text for _, _, text in entries(path)] == [b"one", b"two"]
