"""``cathedra backup`` and ``restore``: a cluster in one file, made and brought back while it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from cathedra.cli.configuration import data_dir, which
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.backup import Backup, back_up, check_backup, restore
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process import background

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Make a backup, or bring one back."""
    file: Path = arguments.file.expanduser().absolute()
    data = DataDir(data_dir(arguments))
    return _back_up(data, file) if arguments.verb == "backup" else _restore(data, file, arguments.name or "")


def _back_up(data: DataDir, target: Path) -> int:
    made = back_up(data, target, SystemClock())
    if made.store == "sqlite":
        print(f"backed up the cluster {made.cluster} at revision {made.revision} to {target}")
    else:
        print(f"backed up keys and description of the cluster {made.cluster} to {target}")
        print(_in_etcd(made, "snapshot save FILE"))
    print(f"it holds the cluster's keys, so keep it secret; bring it back with: {_restoring(data, made, target)}")
    return 0


def _restore(data: DataDir, source: Path, name: str) -> int:
    backup = check_backup(source)  # before anything is stopped
    running = data.holder()
    if running is not None and not data.description.exists():
        raise InvalidOption(
            f"{data.path} is in use by process {running}, which cathedra up did not start: stop it, restore, start it"
        )
    stopped = background.stop(data)
    former = _authority(data)
    restored = restore(data, source, name=name)
    print(f"restored the cluster {restored.cluster} in {data.path} as it was at {restored.created}")
    if restored.store != "sqlite":
        print(_in_etcd(backup, "snapshot restore FILE"))
    if stopped is None or not data.description.exists():
        print(f"start it with: cathedra up --detach{which(restored.cluster, data.path)}")
        return 0
    # A context of the same authority and port is still right, and may not be there on purpose.
    same = ["--no-merge"] if former == _authority(data) else []
    pid = background.start([f"--data-dir={data.path}", *same], data.log, print)
    print(f"process {stopped} was stopped; the cluster runs again as process {pid}")
    return 0


def _authority(data: DataDir) -> bytes:
    certificate = data.path / "pki" / "ca.crt"
    return certificate.read_bytes() if certificate.exists() else b""


def _in_etcd(backup: Backup, action: str) -> str:
    endpoint = backup.store.removeprefix("etcd://").partition("/")[0]
    return f"its objects are in etcd, which has its own way: etcdctl --endpoints {endpoint} {action}"


def _restoring(data: DataDir, backup: Backup, file: Path) -> str:
    words = which(backup.cluster, data.path)
    if words and not words.startswith(" --data-dir"):
        words = f" --cluster {backup.cluster}"
    return f"cathedra restore {file}{words}"
