"""The data directory: its lock, the address of the running process, and a short name for it.

One process at a time holds the lock. It ends with the process, so the directory of a killed cluster is free at once.

The unix sockets below a data directory must fit into the kernel's 107 bytes. A directory deep in a tree would leave no
room for ``plugins_registry/gpu.example.com-reg.sock``. Such a cluster reaches its files through a symbolic link in the
user's runtime directory, whose name follows from the data directory's.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from cathedra.cluster.config import InvalidOption
from cathedra.files.atomic import naming, write_durable
from cathedra.files.private import private_directory

SOCKET: Final = "api.sock"
"""Socket of the API server for other processes of the cluster."""
CHANGES: Final = "changes.sock"
"""Socket at which a running cluster accepts changes."""
_FILES: Final = (
    *(
        SOCKET,
        CHANGES,
        "cathedra.log",
        "cluster.yaml",
        "kubeconfig",
        "layout",
        "local.kubeconfig",
        "nodes",
        "objects.sqlite*",
    ),
    *("pki", "port"),
)
_ENTRIES: Final = tuple(form.format(file) for file in _FILES for form in ("{}", ".{}.*.tmp", "{}.before-restore"))
"""Names that a cluster creates in its directory. Nothing else is ever removed: it may be the user's."""
LONGEST_ROOT: Final = 40
"""Bytes of a root below which every socket of a node fits, also for drivers with long names."""
LAYOUT: Final = "1"
"""Version of the directory's layout; another one is refused."""


class DataDirInUse(InvalidOption):
    """Another process holds the directory."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path, self.pid = path, pid
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is in use by {holder}; stop it with: cathedra down --data-dir {path}")


class DataDir:
    """Files of one cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig, with its certificates inside."""
        return self.path / "kubeconfig"

    @property
    def local_kubeconfig(self) -> Path:
        """A kubeconfig for parts on this machine, that leads to the socket."""
        return self.path / "local.kubeconfig"

    @property
    def log(self) -> Path:
        """Log of a detached cluster."""
        return self.path / "cathedra.log"

    @property
    def description(self) -> Path:
        """The cluster's name and options, in the form of `cathedra.cluster.data.directories`."""
        return self.path / "cluster.yaml"

    def exists(self) -> bool:
        """Return True if a cluster has been here."""
        return self._layout.exists()

    def erase(self) -> tuple[str, ...]:
        """Remove the files of a cluster, and the directory if it is empty then. Return the names of the entries that
        are left.

        Raises: DataDirInUse: a process holds it. InvalidOption: it is no data directory, or has another version's
            layout.
        """
        if not self.exists():
            raise InvalidOption(f"{self.path} is no data directory of a cluster; nothing was removed")
        with self.held():
            for entry in sorted(self.path.iterdir()):
                if not any(fnmatchcase(entry.name, pattern) for pattern in _ENTRIES):
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        self._lock.unlink()
        left = tuple(sorted(entry.name for entry in self.path.iterdir()))
        if not left:
            self.path.rmdir()
        return left

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    @property
    def _layout(self) -> Path:
        return self.path / "layout"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory for this process.

        Raises:
            DataDirInUse: another process holds it.
            InvalidOption: it cannot be made or written, or has another version's layout.
        """
        try:
            private_directory(self.path)
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidOption(f"cannot use data directory {self.path}: {error.strerror}") from error
        try:
            try:
                # The kernel releases the lock when the process ends, for any reason. A PID in a file alone could be
                # stale.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DataDirInUse(self.path, self.holder()) from error
            self._check_layout()
            with naming(self._lock):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
            # Without a PID in it the file cannot name a later process with the same number.
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _check_layout(self) -> None:
        if not self._layout.exists():
            write_durable(self._layout, f"{LAYOUT}\n".encode())
            return
        found = self._layout.read_text(encoding="utf-8", errors="replace").strip()
        if found != LAYOUT:
            raise InvalidOption(
                f"{self.path} has layout {found!r}, this version of Cathedra reads {LAYOUT!r}; "
                "use another --data-dir, or the version that wrote it"
            )

    def holder(self) -> int | None:
        """Return the pid of the process that holds the directory, or None if none does."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            # Shared, so that two readers do not take each other for the holder.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 32, 0).decode().strip()
            return int(text) if text.isdigit() else None
        else:
            return None
        finally:
            os.close(descriptor)


# --- a short name


def short_root(data_dir: Path, environment: Mapping[str, str] | None = None) -> Path:
    """``data_dir`` itself, or a link to it that is short enough; the link is made if it is missing.

    Raises:
        InvalidOption: another user has something of that name.
    """
    if len(str(data_dir).encode()) <= LONGEST_ROOT:
        return data_dir
    link = _link(data_dir, environment)
    try:
        link.symlink_to(data_dir, target_is_directory=True)
    except FileExistsError as error:
        if link.lstat().st_uid != os.getuid() or not link.is_symlink() or link.readlink() != data_dir:
            raise InvalidOption(
                f"{link} is in the way of a short name for {data_dir}; choose another --data-dir"
            ) from error
    return link


def socket_of(data_dir: Path) -> Path:
    """Return the API server's socket for processes of the same cluster."""
    return short_root(data_dir) / SOCKET


def changes_of(data_dir: Path) -> Path:
    """Return the socket at which a running cluster takes changes."""
    return short_root(data_dir) / CHANGES


def node_of(data: DataDir, node: str) -> tuple[Path, Path]:
    """Return the kubeconfig and the equivalent of /var/lib/kubelet for a driver on ``node`` of ``cathedra up``; "" is
    the only node.

    Raises:
        InvalidOption: there is no such cluster, or no such node in it.
    """
    if not data.kubeconfig.exists():
        raise InvalidOption(f"there is no cluster in {data.path}; see what there is with: cathedra list")
    nodes = sorted(path.name for path in (data.path / "nodes").glob("*") if (path / "plugins_registry").is_dir())
    if not node and len(nodes) == 1:
        node = nodes[0]
    if node not in nodes:
        known = f"its nodes are {', '.join(nodes)}" if nodes else "it has no nodes that take drivers"
        raise InvalidOption(f"the cluster in {data.path} has no node {node!r}; {known}")
    return data.kubeconfig, short_root(data.path) / "nodes" / node


def forget_short_root(data_dir: Path, environment: Mapping[str, str] | None = None) -> None:
    """Remove the link that `short_root` created, if any. No process may use it any more."""
    link = _link(data_dir, environment)
    if link.is_symlink() and link.readlink() == data_dir:
        link.unlink()


def _link(data_dir: Path, environment: Mapping[str, str] | None) -> Path:
    environment = os.environ if environment is None else environment
    folder = Path(environment.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    return folder / f"cathedra-{hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]}"
