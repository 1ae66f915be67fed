"""A short name for a data directory, so that the unix sockets below it fit into the kernel's 107 bytes.

A data directory deep in a tree would leave no room for ``plugins_registry/gpu.example.com-reg.sock``. Such a cluster
reaches its files through a symbolic link in the user's runtime directory, whose name follows from the data directory's.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import CHANGES, SOCKET, DataDir

__all__ = ["changes_of", "forget_short_root", "node_of", "short_root", "socket_of"]

LONGEST_ROOT: Final = 40
"""Bytes of a root below which every socket of a node fits, also for drivers with long names."""


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
    """The API server's socket for processes of the same cluster."""
    return short_root(data_dir) / SOCKET


def changes_of(data_dir: Path) -> Path:
    """The socket at which a running cluster takes changes."""
    return short_root(data_dir) / CHANGES


def node_of(data: DataDir, node: str) -> tuple[Path, Path]:
    """Kubeconfig, and what /var/lib/kubelet is, for a driver on a node of ``cathedra up``: ``node``, or if that is "",
    the only one.

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
