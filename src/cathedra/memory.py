"""Memory of this process: its size, and the return of freed memory to the system."""

from __future__ import annotations

import os


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
