"""A process moves to huge pages what it uses, where the system lets it."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from cathedra import memory

PERMISSION = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MIB = 1024 * 1024


def mapping(bounds: str, mode: str = "rw-p", path: str = "", *, resident: int = 0, huge: int = 0) -> str:
    """Return one mapping in the form of proc_pid_smaps(5); sizes in KiB."""
    return f"""\
{bounds} {mode} 00000000 00:00 0      {path}
Size:              16384 kB
Rss:               {resident} kB
AnonHugePages:     {huge} kB
VmFlags: rd wr mr mw me ac
"""


def test_dense_anonymous_mappings_are_moved() -> None:
    found = memory._dense_mappings(
        mapping("01000000-02000000", path="[heap]", resident=16384)
        + mapping("7f0001000000-7f0002000000", resident=14336)
        + mapping("7f0003000000-7f0004000000", resident=16384, huge=14336)
    )
    assert list(found) == [(0x1000000, 0x2000000), (0x7F0001000000, 0x7F0002000000), (0x7F0003000000, 0x7F0004000000)]


@pytest.mark.parametrize(
    "other",
    [
        mapping("7f0001000000-7f0002000000", resident=14332),
        mapping("7f0001000000-7f0002000000", resident=16384, huge=14340),
        mapping("7f0001000000-7f0002000000", "r-xp", resident=16384),
        mapping("7f0001000000-7f0002000000", path="/usr/lib/a library.so", resident=16384),
        mapping("7f0001000000-7f0002000000", path="[stack]", resident=16384),
    ],
    ids=["hardly used", "huge already", "not writable", "of a file", "of the stack"],
)
def test_other_mappings_stay_as_they_are(other: str) -> None:
    assert list(memory._dense_mappings(other)) == []


def is_possible() -> bool:
    """Return True for a Linux kernel of version 6.1 or later that grants huge pages."""
    version = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    return PERMISSION.exists() and "[never]" not in PERMISSION.read_text() and version >= (6, 1)


def huge_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("AnonHugePages:"))


def test_what_a_process_holds_is_the_same_in_huge_pages() -> None:
    held = [(number, str(number)) for number in range(150_000)]
    memory.use_huge_pages()
    assert held == [(number, str(number)) for number in range(150_000)]
    if is_possible():
        assert huge_bytes() >= 8 * MIB


def test_huge_pages_are_not_used_where_the_administrator_excludes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    excluded = tmp_path / "enabled"
    excluded.write_text("always madvise [never]\n")
    monkeypatch.setattr(memory, "_PERMISSION", excluded)
    monkeypatch.setattr(memory, "_dense_mappings", lambda smaps: pytest.fail("mappings are moved"))
    memory.use_huge_pages()


@pytest.mark.parametrize("missing", ["_PERMISSION", "_MAPPINGS"])
def test_huge_pages_are_not_used_where_the_system_hides_what_they_need(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = tmp_path / "enabled"
    granted.write_text("always [madvise] never\n")
    monkeypatch.setattr(memory, "_PERMISSION", granted)
    monkeypatch.setattr(memory, missing, tmp_path / "absent")
    monkeypatch.setattr(memory, "_dense_mappings", lambda smaps: pytest.fail("mappings are moved"))
    memory.use_huge_pages()


def test_mappings_of_files_with_any_name_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    granted, mappings = tmp_path / "enabled", tmp_path / "smaps"
    granted.write_text("always [madvise] never\n")
    mappings.write_bytes(
        mapping("7f0001000000-7f0002000000", path="/tmp/@\x0cb\x1cc\u2028d", resident=4).encode().replace(b"@", b"\xff")
    )
    monkeypatch.setattr(memory, "_PERMISSION", granted)
    monkeypatch.setattr(memory, "_MAPPINGS", mappings)
    memory.use_huge_pages()
