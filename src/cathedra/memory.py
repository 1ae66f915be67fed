"""Memory of this process: its size, the size of its pages, and the return of freed memory to the system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PERMISSION: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAPPINGS: Final = Path("/proc/self/smaps")
_COLLAPSE: Final = 25
"""``MADV_COLLAPSE`` of Linux 6.1 and later."""
_HUGE: Final = 2 * 1024 * 1024
"""Bytes of a huge page of most processors."""
_SPARSE: Final = 8
"""A mapping of which more than an eighth is unused stays as it is: in a huge page that would be used, too."""


def resident_bytes() -> int:
    """Return the memory of this process in bytes; 0 if the system does not provide it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def return_freed() -> None:
    """Return freed memory, also between what is in use, to the system, where the C library can do that."""
    import ctypes  # start-up time: hardly any process needs it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def use_huge_pages() -> None:
    """Move what this process holds to huge pages, where the system grants these on request.

    A server goes from object to object all over its memory, and the processor remembers where a few thousand pages are.
    With huge pages these are gigabytes instead of megabytes. To move one takes 0.5 to 7 ms; a thread that uses it
    meanwhile waits. What cannot be moved stays as it is.
    """
    import ctypes  # as above

    try:
        if "[never]" in _PERMISSION.read_text():
            return
        mappings = _MAPPINGS.read_text(errors="replace")  # paths are any bytes
    # Another system than Linux, or one that hides this from its processes.
    except OSError:
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, end in _dense_mappings(mappings):
        advise(start, end - start, _COLLAPSE)


def _dense_mappings(smaps: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of anonymous mappings that are nearly all in use, and not in huge pages so far.

    ``smaps`` is in the form of proc_pid_smaps(5): a line that names the mapping, and then its sizes.
    """
    bounds: tuple[int, int] | None = None
    resident = 0
    for line in filter(None, smaps.split("\n")):  # a path has any other character that ends a line
        name, *rest = line.split()
        if not name.endswith(":"):
            start, end = (int(part, 16) for part in name.split("-"))
            anonymous = len(rest) == 4 or rest[4] == "[heap]"
            bounds = (start, end) if anonymous and rest[0].startswith("rw") else None
        elif name == "Rss:":
            resident = int(rest[0]) * 1024
        elif name == "AnonHugePages:" and bounds is not None:
            size = bounds[1] - bounds[0]
            if size - resident <= size // _SPARSE and resident - int(rest[0]) * 1024 >= _HUGE:
                yield bounds
