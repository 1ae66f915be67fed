"""Makes the links of mounted libraries and the linker's cache: ``python -m cathedra.drivers.hooks.libraries FILE…``.

A driver mounts ``libcuda.so.580.159.04``, and programs load ``libcuda.so.1``: the name that the library itself has
(``DT_SONAME``), made as a link beside it. Then the linker's cache of the container is updated by the machine's
``ldconfig``, if there is one; without it programs find the libraries where their search path leads to the folder.

The hook runs as ``createContainer``: the container's mounts are there, and its root is not yet the process' own. The
image's links may lead anywhere on the machine. All work on its files is therefore done below a changed root.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from cathedra.drivers.hooks.state import ContainerState, HookError, fail, read_state

_LDCONFIG: Final = ("/sbin/ldconfig", "/usr/sbin/ldconfig", "/sbin/ldconfig.real")
_DYNAMIC: Final = 2
_LOAD: Final = 1
_SONAME: Final = 14
_STRTAB: Final = 5
_SEGMENT: Final = struct.Struct("<IIQQQQ")
"""Beginning of a program header: type, flags, place in the file, address, physical address, size in the file."""


def root_of(state: ContainerState) -> Path:
    """Return the container's root directory on the machine.

    Raises:
        HookError: the bundle does not name it.
    """
    try:
        root = str(json.loads((state.bundle / "config.json").read_text())["root"]["path"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HookError(f"{state.bundle}/config.json: {error!r}") from error
    return state.bundle / root


def soname(path: Path) -> str:
    """Return the name under which programs load the library; "" if it has none, or is no 64-bit little-endian ELF."""
    with path.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            return ""
        offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        table = file.read(size * count)
        starts = range(0, len(table) - _SEGMENT.size + 1, size or len(table) + 1)
        segments = [_SEGMENT.unpack_from(table, start) for start in starts]
        dynamic = next((segment for segment in segments if segment[0] == _DYNAMIC), None)
        if dynamic is None:
            return ""
        file.seek(dynamic[2])
        entries = dict(struct.iter_unpack("<QQ", file.read(dynamic[5] // 16 * 16)))
        if _SONAME not in entries or _STRTAB not in entries:
            return ""
        # The table's address is that in memory; the segment that is loaded there gives its place in the file.
        address = entries[_STRTAB]
        loaded = next((one for one in segments if one[0] == _LOAD and one[3] <= address < one[3] + one[5]), None)
        if loaded is None:
            return ""
        file.seek(loaded[2] + address - loaded[3] + entries[_SONAME])
        return file.read(256).partition(b"\0")[0].decode(errors="replace")


def link_libraries(files: Iterable[Path]) -> list[Path]:
    """Make the links of libraries beside them, and ``libcuda.so`` as programs are linked with it. Return new links."""
    made = []
    for file in files:
        if not file.is_file():
            continue
        name = soname(file)
        links = [name] if name and "/" not in name else []
        if name == "libcuda.so.1":
            links.append("libcuda.so")
        for link, target in zip(links, (file.name, *links), strict=False):
            path = file.with_name(link)
            # An image may bring the link, for example to a library for compatibility; that one is kept.
            if link != file.name and not os.path.lexists(path):
                path.symlink_to(target)
                made.append(path)
    return made


def main() -> None:
    """Prepare the container that standard input describes; exit with an error if that fails."""
    try:
        _run(root_of(read_state(sys.stdin)), [Path(name) for name in sys.argv[1:]])
    except (HookError, OSError) as error:
        fail("libraries hook", error)


def _run(root: Path, files: Sequence[Path]) -> None:
    # A container on the machine's own root directory has the machine's links, and must not change them.
    if root.resolve().samefile("/"):
        return
    folders = list(dict.fromkeys(str(file.parent) for file in files))
    ldconfig = next((program for program in _LDCONFIG if os.access(program, os.X_OK)), None)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chroot(root)
            os.chdir("/")
            link_libraries(files)
            status = 0
        except OSError as error:
            print(f"libraries hook: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise HookError("the links of libraries cannot be made in the container")
    if ldconfig is not None and (root / "etc").is_dir():
        # With -r it changes its root before it reads anything.
        subprocess.run([ldconfig, "-r", str(root), *folders], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
