"""Libraries and programs of NVIDIA's kernel driver, wherever this machine has them.

They are below ``/usr`` on a common machine, in ``/run/nvidia/driver`` under NVIDIA's GPU operator, and in directories
of their own on managed clusters and immutable systems. Without a configured root, the search begins in the directory of
the library that NVML itself was loaded from, continues with the cache of the dynamic linker, and ends with the known
places. A container that got the device nodes alone would find no driver and give no reason, so a machine without
``libcuda`` of the kernel driver's version is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from cathedra.driver import OptionError

_KNOWN_ROOTS: Final = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "/usr/local/nvidia")
_LIBRARY_FOLDERS: Final = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib64",
    "lib",
)
_PROGRAM_FOLDERS: Final = ("usr/bin", "bin")
_LIBRARIES: Final = ("libcuda.so", "libcudadebugger.so", "libnvidia-*.so", "libnvcuvid.so")
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
_CONVENTION: Final = PurePosixPath("/usr/local/nvidia")
"""Folder in containers for files of a root without ``usr``: images for CUDA have it on their search paths."""
_CACHED: Final = re.compile(rb"(/[^\0]{1,4000})/libcuda\.so[.\d]*\0")


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file of the machine, and where a container gets it."""

    host: PurePosixPath
    container: PurePosixPath


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """The files of one version of the driver."""

    libraries: tuple[HostFile, ...]
    programs: tuple[HostFile, ...]

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the libraries in the container."""
        return tuple(dict.fromkeys(str(one.container.parent) for one in self.libraries))


def find_driver_files(version: str, root: Path, driver_root: Path | None = None) -> DriverFiles:
    """Return the files of the kernel driver's ``version``.

    Args:
        root: the machine's root directory.
        driver_root: the only place to search, as the machine names it; None: all places.

    Raises:
        OptionError: there is no ``libcuda`` of that version.
    """
    places = list(_places(root, None if driver_root is None else str(driver_root)))
    libraries: dict[str, HostFile] = {}
    for folder, container in places:
        for pattern in _LIBRARIES:
            for path in sorted(below(root, folder).glob(f"{pattern}.{version}")):
                libraries.setdefault(path.name, HostFile(folder / path.name, container / path.name))
    if f"libcuda.so.{version}" not in libraries:
        searched = ", ".join(dict.fromkeys(str(folder) for folder, _ in places if below(root, folder).is_dir()))
        raise OptionError(
            f"libcuda.so.{version}, the library of the kernel driver's version, was not found, so no GPU is published; "
            f"searched: {searched or driver_root}; name the directory of the driver with driverRoot or --driver-root"
        )
    return DriverFiles(tuple(libraries.values()), tuple(_programs(root, places, driver_root)))


def _places(root: Path, driver_root: str | None) -> Iterator[tuple[PurePosixPath, PurePosixPath]]:
    """Yield folders of libraries, and where a container gets their files; each folder once."""
    roots = _KNOWN_ROOTS if driver_root is None else (driver_root,)
    folders = [PurePosixPath(one) / folder for one in roots for folder in _LIBRARY_FOLDERS]
    if driver_root is None:
        folders = [*_loaded(root), *_cached(root), *folders]
    seen: set[Path] = set()
    for folder in folders:
        # Often one of these is a link to another: /lib to /usr/lib, lib to lib64.
        real = below(root, folder).resolve()
        if real not in seen:
            seen.add(real)
            yield folder, _in_container(folder, roots)


def _in_container(folder: PurePosixPath, roots: tuple[str, ...]) -> PurePosixPath:
    for one in roots:
        if one != "/" and folder.is_relative_to(one):
            inner = folder.relative_to(one)
            return PurePosixPath("/") / inner if inner.parts[:1] == ("usr",) else _CONVENTION / inner
    return folder


def _loaded(root: Path) -> list[PurePosixPath]:
    """Return the folder of the library that this process has loaded as NVML."""
    try:
        lines = (root / "proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = [line.split(maxsplit=5)[5] for line in lines if "/libnvidia-ml.so" in line]
    return [PurePosixPath(path).parent for path in dict.fromkeys(paths)]


def _cached(root: Path) -> list[PurePosixPath]:
    """Return the folders in which the dynamic linker finds libcuda; links are followed."""
    try:
        content = (root / "etc/ld.so.cache").read_bytes()
    except OSError:
        return []
    return [PurePosixPath(found.decode(errors="replace")) for found in dict.fromkeys(_CACHED.findall(content))]


def _programs(
    root: Path, places: list[tuple[PurePosixPath, PurePosixPath]], driver_root: Path | None
) -> Iterator[HostFile]:
    # Beside the libraries first: below /usr there may be scripts that call these.
    beside = [(folder.parent / "bin", container.parent / "bin") for folder, container in places]
    roots = _KNOWN_ROOTS if driver_root is None else (str(driver_root),)
    usual = [PurePosixPath(one) / folder for one in roots for folder in _PROGRAM_FOLDERS]
    candidates = [*beside, *((folder, _in_container(folder, roots)) for folder in usual)]
    for name in _PROGRAMS:
        for folder, container in candidates:
            if (below(root, folder) / name).is_file():
                yield HostFile(folder / name, container / name)
                break


def below(root: Path, path: PurePosixPath) -> Path:
    """Return the path of a file that the machine names ``path``, seen from here."""
    return root / path.relative_to("/")
