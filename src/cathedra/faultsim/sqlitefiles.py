"""Files of a simulated disk under the real SQLite: a VFS in memory that can be full, fail to sync, and lose power.

SQLite reaches every file through a table of functions, its VFS. This one keeps files in memory and knows what of each
is durable: a write is durable after the next sync of its file. When the power fails, each write since then is kept,
lost, or torn at a sector. A sync that fails may have lost what it was to keep, as on Linux: pages count as clean
afterwards, and a later sync does not write them. Entries of directories are durable at once.

The functions are given to the library that the module `sqlite3` uses, through ctypes; that needs a Python that links it
dynamically (`available`).
"""

from __future__ import annotations

import ctypes as c
import itertools
import sqlite3
from collections.abc import Callable
from random import Random
from typing import Any, Final

SECTOR: Final = 512
"""Bytes that a disk writes whole or not at all."""
_OK: Final = 0
_FULL: Final = 13
_CANNOT_OPEN: Final = 14
_NOT_FOUND: Final = 12
_READ_ERROR: Final = 10 | 1 << 8
_SHORT_READ: Final = 10 | 2 << 8
_WRITE_ERROR: Final = 10 | 3 << 8
_SYNC_ERROR: Final = 10 | 4 << 8
_CREATE: Final = 0x4
_POWERSAFE_OVERWRITE: Final = 0x1000
_PAGES: Final = 32 * 1024
"""Bytes of a region of the write-ahead log's index."""

_numbers: Final = itertools.count(1)
_CLOSED: Final[list[Any]] = []
"""Functions that SQLite does not call any more, unless a connection is left that Python has not closed yet."""


class PlayedFile:
    """One file: what programs read, and what would be left without power."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._durable = bytearray()
        self._pending: list[tuple[int, bytes | None]] = []
        """Since the last sync: offset and bytes; None: the file was cut at the offset."""

    def write(self, offset: int, data: bytes) -> None:
        """Write, as far as programs see it."""
        _put(self.content, offset, data)
        self._pending.append((offset, data))

    def truncate(self, size: int) -> None:
        """Shorten the file to ``size`` bytes, as far as programs see it."""
        del self.content[size:]
        self._pending.append((size, None))

    def sync(self) -> None:
        """Make everything durable that is written."""
        self._keep(self._pending, lambda data: data)

    def fail_sync(self, random: Random) -> None:
        """Forget some of what was to become durable. Programs still see it, and a later sync does not write it."""
        kept = [one for one in self._pending if random.random() < 0.5]
        self._keep(kept, lambda data: data)

    def lose_power(self, random: Random) -> None:
        """Keep what is durable, and of the rest what had reached the disk by chance."""
        kept = [one for one in self._pending if random.random() < 0.6]
        self._keep(kept, lambda data: _torn(data, random))
        self.content = bytearray(self._durable)

    def _keep(self, changes: list[tuple[int, bytes | None]], reached: Callable[[bytes], bytes]) -> None:
        for offset, data in changes:
            if data is None:
                del self._durable[offset:]
            else:
                _put(self._durable, offset, reached(data))
        self._pending = []


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _torn(data: bytes, random: Random) -> bytes:
    """Return what a disk has written of some bytes when its power fails: all, or the first sectors."""
    if random.random() < 0.5:
        return data
    return data[: SECTOR * random.randint(0, len(data) // SECTOR)]


class PlayedFiles:
    """The files of one disk, with its faults."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.files: dict[str, PlayedFile] = {}
        self.full = False
        """True if no file can grow."""
        self.failing_syncs = 0.0
        """Share of syncs that fail."""
        self.left: int | None = None
        """Writes and syncs until the power fails; None: it does not. At 0 nothing works."""

    @property
    def dead(self) -> bool:
        """Return True if the power has failed."""
        return self.left == 0

    def lose_power(self) -> None:
        """Fail, and restart with the content of the disk."""
        for _, file in sorted(self.files.items()):
            file.lose_power(self.random)
        self.left = None

    def write(self, name: str, offset: int, data: bytes) -> int:
        """Write, and return SQLite's result code."""
        if self._fails():
            return _WRITE_ERROR
        file = self.files[name]
        room = max(len(file.content) - offset, 0)
        if self.full and len(data) > room:
            # What fits is written, as by a system call that writes less than it was given.
            file.write(offset, data[: min(room, SECTOR)])
            return _FULL
        file.write(offset, data)
        return _OK

    def sync(self, name: str) -> int:
        """Sync a file, and return SQLite's result code."""
        if self._fails():
            return _SYNC_ERROR
        if self.failing_syncs and self.random.random() < self.failing_syncs:
            self.files[name].fail_sync(self.random)
            return _SYNC_ERROR
        self.files[name].sync()
        return _OK

    def truncate(self, name: str, size: int) -> int:
        """Cut a file, and return SQLite's result code."""
        if self._fails():
            return _WRITE_ERROR
        self.files[name].truncate(size)
        return _OK

    def remove(self, name: str) -> int:
        """Remove a file, and return SQLite's result code."""
        if self._fails():
            return _WRITE_ERROR
        self.files.pop(name, None)
        return _OK

    def _fails(self) -> bool:
        if self.left:
            self.left -= 1
        return self.dead


class _FileHandle(c.Structure):
    _fields_ = (("methods", c.c_void_p), ("number", c.c_int64))


_FileP = c.POINTER(_FileHandle)
_V, _I, _L, _S = c.c_void_p, c.c_int, c.c_int64, c.c_char_p
_IntP, _LongP, _DoubleP = c.POINTER(c.c_int), c.POINTER(c.c_int64), c.POINTER(c.c_double)
_METHODS: Final = {
    "close": (_FileP,),
    "read": (_FileP, _V, _I, _L),
    "write": (_FileP, _V, _I, _L),
    "truncate": (_FileP, _L),
    "sync": (_FileP, _I),
    "file_size": (_FileP, _LongP),
    "lock": (_FileP, _I),
    "unlock": (_FileP, _I),
    "check_reserved_lock": (_FileP, _IntP),
    "file_control": (_FileP, _I, _V),
    "sector_size": (_FileP,),
    "device_characteristics": (_FileP,),
    "shm_map": (_FileP, _I, _I, _I, c.POINTER(c.c_void_p)),
    "shm_lock": (_FileP, _I, _I, _I),
    "shm_barrier": (_FileP,),
    "shm_unmap": (_FileP, _I),
}
"""The functions of a file in SQLite's order (sqlite3_io_methods, version 2), with their arguments."""
_FUNCTIONS: Final = {
    "open_": (_V, _S, _FileP, _I, _IntP),
    "delete": (_V, _S, _I),
    "access": (_V, _S, _I, _IntP),
    "full_path": (_V, _S, _I, _V),
    "dl_open": (_V, _S),
    "dl_error": (_V, _I, _V),
    "dl_sym": (_V, _V, _S),
    "dl_close": (_V, _V),
    "randomness": (_V, _I, _V),
    "sleep": (_V, _I),
    "current_time": (_V, _DoubleP),
    "last_error": (_V, _I, _V),
}
"""The functions of a VFS (sqlite3_vfs, version 1)."""


class _Methods(c.Structure):
    _fields_ = (("version", c.c_int), *((name, c.c_void_p) for name in _METHODS))


class _VFS(c.Structure):
    _fields_ = (
        ("version", c.c_int),
        ("file_size", c.c_int),
        ("longest_path", c.c_int),
        ("next", c.c_void_p),
        ("name", c.c_char_p),
        ("data", c.c_void_p),
        *((name, c.c_void_p) for name in _FUNCTIONS),
    )


def _library() -> Any:
    import _sqlite3  # its file is the library, or leads to it

    library: Any = c.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_register.argtypes = (c.c_void_p, c.c_int)
    library.sqlite3_vfs_unregister.argtypes = (c.c_void_p,)
    return library


def available() -> bool:
    """Return True if this Python's SQLite takes a VFS."""
    try:
        return _library() is not None
    except (ImportError, AttributeError, OSError):
        return False


class FilesVFS:
    """The functions through which SQLite uses the files of one disk."""

    def __init__(self, files: PlayedFiles) -> None:
        self.name = f"cathedra-{next(_numbers)}"
        self._files = files
        self._open: dict[int, str] = {}
        self._handles = itertools.count(1)
        self._regions: list[Any] = []
        # The library keeps pointers to all of these.
        self._kept: list[Any] = []
        self._methods = _Methods(2, *self._pointers(_METHODS))
        self._vfs = _VFS(1, c.sizeof(_FileHandle), 512, None, self.name.encode(), None, *self._pointers(_FUNCTIONS))
        self._library = _library()
        self._library.sqlite3_vfs_register(c.byref(self._vfs), 0)

    def connect(self, name: str) -> sqlite3.Connection:
        """Open a database on these files.

        Raises:
            sqlite3.Error: it cannot be opened.
        """
        # A connection of an earlier life may still be there: Python closes it with its last cursor, which the traceback
        # of an error can hold. Its handles are invalid from here on, and its memory stays.
        self._open.clear()
        self._kept.append(self._regions)
        self._regions = []
        return sqlite3.connect(f"file:/{name}?vfs={self.name}", uri=True, isolation_level=None)

    def close(self) -> None:
        """Take the functions away from SQLite."""
        self._open.clear()
        self._files.files.clear()
        _CLOSED.append((self._vfs, self._methods, tuple(self._kept)))
        self._library.sqlite3_vfs_unregister(c.byref(self._vfs))

    def _pointers(self, table: Any) -> list[int | None]:
        made: list[int | None] = []
        for name, arguments in table.items():
            function = getattr(self, f"_{name}", None)
            # Extensions cannot be loaded from a simulated disk.
            if function is None:
                made.append(None)
                continue
            pointer = c.CFUNCTYPE(c.c_int, *arguments)(function)
            self._kept.append(pointer)
            made.append(c.cast(pointer, c.c_void_p).value)
        return made

    def _name_of(self, file: Any) -> str:
        """Return the name of an open file; "" if its connection is of an earlier life."""
        name = self._open.get(file.contents.number, "")
        return name if name in self._files.files else ""

    # Functions of a file.

    def _close(self, file: Any) -> int:
        self._open.pop(file.contents.number, None)
        return _OK

    def _read(self, file: Any, buffer: int, size: int, offset: int) -> int:
        name = self._name_of(file)
        if self._files.dead or not name:
            return _READ_ERROR
        data = bytes(self._files.files[name].content[offset : offset + size])
        c.memmove(buffer, data.ljust(size, b"\0"), size)
        return _OK if len(data) == size else _SHORT_READ

    def _write(self, file: Any, buffer: int, size: int, offset: int) -> int:
        name = self._name_of(file)
        return self._files.write(name, offset, c.string_at(buffer, size)) if name else _WRITE_ERROR

    def _truncate(self, file: Any, size: int) -> int:
        name = self._name_of(file)
        return self._files.truncate(name, size) if name else _WRITE_ERROR

    def _sync(self, file: Any, flags: int) -> int:
        name = self._name_of(file)
        return self._files.sync(name) if name else _SYNC_ERROR

    def _file_size(self, file: Any, size: Any) -> int:
        name = self._name_of(file)
        size[0] = len(self._files.files[name].content) if name else 0
        return _OK if name else _READ_ERROR

    def _lock(self, file: Any, level: int) -> int:
        return _OK  # one connection at a time

    _unlock = _lock

    def _check_reserved_lock(self, file: Any, held: Any) -> int:
        held[0] = 0
        return _OK

    def _file_control(self, file: Any, operation: int, argument: int) -> int:
        return _NOT_FOUND

    def _sector_size(self, file: Any) -> int:
        return SECTOR

    def _device_characteristics(self, file: Any) -> int:
        # As SQLite's own VFS for Unix: a write leaves the bytes beside it alone.
        return _POWERSAFE_OVERWRITE

    def _shm_map(self, file: Any, region: int, size: int, extend: int, found: Any) -> int:
        while extend and len(self._regions) <= region:
            self._regions.append(c.create_string_buffer(max(size, _PAGES)))
        found[0] = c.addressof(self._regions[region]) if region < len(self._regions) else None
        return _OK

    def _shm_lock(self, file: Any, offset: int, number: int, flags: int) -> int:
        return _OK

    def _shm_barrier(self, file: Any) -> int:
        return _OK

    def _shm_unmap(self, file: Any, delete: int) -> int:
        return _OK

    # Functions of the disk.

    def _open_(self, _: Any, name: bytes | None, file: Any, flags: int, out: Any) -> int:
        path = name.decode() if name else f"temporary-{next(self._handles)}"
        if path not in self._files.files:
            if not flags & _CREATE or self._files.dead:
                file.contents.methods = None
                return _CANNOT_OPEN
            self._files.files[path] = PlayedFile()
        number = next(self._handles)
        self._open[number] = path
        file.contents.methods = c.addressof(self._methods)
        file.contents.number = number
        if out:
            out[0] = flags
        return _OK

    def _delete(self, _: Any, name: bytes, sync: int) -> int:
        # Without open files a connection of an earlier life ends, which must not remove the log of the present one.
        return self._files.remove(name.decode()) if self._open else _WRITE_ERROR

    def _access(self, _: Any, name: bytes, flags: int, found: Any) -> int:
        found[0] = int(name.decode() in self._files.files)
        return _OK

    def _full_path(self, _: Any, name: bytes, size: int, out: int) -> int:
        c.memmove(out, name + b"\0", len(name) + 1)
        return _OK

    def _randomness(self, _: Any, size: int, out: int) -> int:
        # From the seed, so that the salts of a write-ahead log are the same in each run.
        c.memmove(out, self._files.random.randbytes(size), size)
        return size

    def _sleep(self, _: Any, microseconds: int) -> int:
        return microseconds

    def _current_time(self, _: Any, days: Any) -> int:
        days[0] = 2_461_041.5
        return _OK

    def _last_error(self, _: Any, size: int, out: int) -> int:
        return _OK
