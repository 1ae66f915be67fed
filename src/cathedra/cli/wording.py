"""How the commands name a cluster to people."""

from __future__ import annotations

from pathlib import Path

from cathedra.cluster.data.directories import DEFAULT_NAME, directory_of

__all__ = ["kept_where", "which"]


def which(name: str, path: Path) -> str:
    """What to add to a command so that it means this cluster; empty for the default one."""
    if directory_of(name).expanduser().absolute() != path:
        return f" --data-dir {path}"
    return "" if name == DEFAULT_NAME else f" {name}"


def kept_where(store: str) -> str:
    """What became of the objects of a cluster that was stopped."""
    if store == "memory":
        return "its objects were in memory and are gone"
    if store.startswith("etcd://"):
        return f"its objects are kept in etcd ({store.removeprefix('etcd://').partition('?')[0]})"
    return "its objects are kept"
