"""``cathedra down`` stops a cluster, ``cathedra delete`` also removes everything of it."""

from __future__ import annotations

import argparse
import sys

from cathedra.cli.configuration import kept_where, selected_data
from cathedra.client import kubeconfig
from cathedra.client.kubeconfig import KubeconfigError
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import (
    BESIDE,
    DEFAULT_NAME,
    current_cluster,
    forget_elsewhere,
    kept_description,
    known_directories,
    selecting,
)
from cathedra.cluster.process.background import stop

__all__ = ["delete", "down"]


def down(arguments: argparse.Namespace) -> int:
    """Stop the cluster. Return 1 if it was not running."""
    data = selected_data(arguments)
    kept = kept_description(data)
    pid = stop(data)
    if pid is None:
        print(f"no cluster is running on {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    name = kept.name or DEFAULT_NAME
    print(
        f"stopped the cluster {name} (process {pid}); {kept_where(str(kept.spec.get('store', 'sqlite')))}\n"
        f"start it again with: cathedra up --detach{selecting(name, data.path)}"
    )
    return 0


def delete(arguments: argparse.Namespace) -> int:
    """Stop the cluster and remove it. Return 1 if there is none.

    Raises:
        InvalidOption: there are several clusters, and neither a name nor the current context selects one.
    """
    data = selected_data(arguments)
    if not (arguments.data_dir or arguments.name or arguments.cluster):
        _require_only(data)
    if not data.exists():
        print(f"there is no cluster in {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    kept = kept_description(data)
    name = kept.name or DEFAULT_NAME
    pid = stop(data)
    context = _forget_context(data)
    left = [entry for entry in data.erase() if entry not in BESIDE]
    forget_elsewhere(data.path)
    print(f"deleted the cluster {name} in {data.path}" + (f" (stopped process {pid})" if pid else ""))
    if left:
        print(f"what is not the cluster's is left in {data.path}: {', '.join(left)}")
    if context is not None:
        print(f"its context is gone from your kubeconfig; current is now {context or 'none'}")
    store = str(kept.spec.get("store", "sqlite"))
    if store.startswith("etcd://"):
        print(f"its objects are still in etcd ({store.removeprefix('etcd://').partition('?')[0]})")
    return 0


def _require_only(data: DataDir) -> None:
    # That one alone runs is too little here: the one that is meant may be a stopped one, and no command restores it.
    if current_cluster() is None and data.exists() and any(one.path != data.path for one in known_directories()):
        words = selecting(kept_description(data).name or DEFAULT_NAME, data.path)
        raise InvalidOption(f"there are several clusters: name the one to delete, as in cathedra delete{words}")


def _forget_context(data: DataDir) -> str | None:
    """Remove the cluster's context from the user's kubeconfig. Return the context that is now current, or None."""
    try:
        target = kubeconfig.load(data.kubeconfig)
    except KubeconfigError:
        return None  # it was never ready, so it entered none
    return kubeconfig.remove(target)
