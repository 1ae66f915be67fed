"""``cathedra delete``: stop a cluster and remove everything of it."""

from __future__ import annotations

import argparse
import sys

from cathedra.cli.configuration import data_dir
from cathedra.client import kubeconfig
from cathedra.client.kubeconfig import KubeconfigError
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.description import Description, read_description
from cathedra.cluster.data.directories import CLUSTERS, DEFAULT_NAME
from cathedra.cluster.process.background import stop

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Remove it; 1 if there is none."""
    data = DataDir(data_dir(arguments))
    if not data.exists():
        print(f"there is no cluster in {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    kept = read_description(data.description) if data.description.exists() else Description()
    pid = stop(data)
    context = _forget_context(data)
    left = [name for name in data.erase() if name != CLUSTERS]
    print(
        f"deleted the cluster {kept.name or DEFAULT_NAME} in {data.path}" + (f" (stopped process {pid})" if pid else "")
    )
    if left:
        print(f"what is not the cluster's is left in {data.path}: {', '.join(left)}")
    if context is not None:
        print(f"its context is gone from your kubeconfig; current is now {context or 'none'}")
    store = str(kept.spec.get("store", "sqlite"))
    if store.startswith("etcd://"):
        print(f"its objects are still in etcd ({store.removeprefix('etcd://').partition('?')[0]})")
    return 0


def _forget_context(data: DataDir) -> str | None:
    """Take the cluster's context out of the user's kubeconfig; the context that is now current, or None."""
    try:
        target = kubeconfig.load(data.kubeconfig)
    except KubeconfigError:
        return None  # it was never ready, so it entered none
    return kubeconfig.remove(target.name, target.server)
