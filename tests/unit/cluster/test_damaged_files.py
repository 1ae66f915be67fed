"""A start on a data directory with a file that is empty, damaged or cannot be written: the error names it."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from cathedra.apiserver.pipeline.audit import PolicyError
from cathedra.apiserver.storage import compaction
from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.cli.errors import error_line
from cathedra.clock import SystemClock
from cathedra.cluster.cluster import RunningCluster
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.serving import open_server
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.reading import ConfigurationError


async def started(folder: Path, policy: Path | None = None) -> None:
    """Start an API server on a data directory, and stop it."""
    log = None if policy is None else folder / "audit.log"
    config = ClusterConfig(data_dir=folder, audit_log=log, audit_policy=policy)
    with DataDir(folder).held():
        server = await open_server(
            config, gates=FeatureGates.for_release(), clock=SystemClock(), random=random.Random(1)
        )
        await server.close()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was used."""
    folder = tmp_path_factory.mktemp("used") / "data"
    asyncio.run(started(folder))
    return folder


EMPTY, GARBAGE = b"", b"garbage\xff\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("port", content) for content in (EMPTY, GARBAGE, b"65536\n")),
        *(("objects.sqlite", content) for content in (EMPTY, GARBAGE)),
        ("objects.sqlite.revision", GARBAGE),
        *((f"pki/{name}", content) for name in ("sa.key", "ca.crt", "apiserver.crt") for content in (EMPTY, GARBAGE)),
    ],
)
async def test_a_file_that_cannot_be_used_is_named(used: Path, tmp_path: Path, name: str, content: bytes) -> None:
    folder = tmp_path / "data"
    shutil.copytree(used, folder)
    (folder / name).write_bytes(content)
    with pytest.raises(Exception, match=re.escape(str(folder / name))) as refused:
        await started(folder)
    assert error_line(refused.value) is not None


async def test_a_file_that_a_full_disk_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("cathedra.files.atomic.os.write", full)
    with pytest.raises(OSError, match="No space left") as refused:
        await started(tmp_path / "data")
    assert error_line(refused.value) == f"{tmp_path / 'data' / 'layout'}: No space left on device"


async def test_a_store_that_a_full_disk_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
        return [StorageError("the store could not commit: database or disk is full") for _ in writes]

    monkeypatch.setattr(compaction, "commit_writes", full)
    with pytest.raises(StorageError) as refused:
        await started(tmp_path / "data")
    assert str(refused.value).startswith(f"what every cluster has could not be written to {tmp_path / 'data'}: ")


@pytest.mark.parametrize("content", [b"{", b"\xff", b"profiles: 1", b"kind: Pod"])
def test_a_scheduler_configuration_that_cannot_be_read_is_named_before_the_cluster_starts(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_bytes(content)
    config = ClusterConfig(data_dir=tmp_path / "data", scheduler_file=file)
    with pytest.raises(ConfigurationError, match=f"--scheduler-config {file}: "):
        RunningCluster(config, clock=SystemClock(), random=random.Random(1), say=print)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
async def test_an_audit_policy_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_bytes(content)
    with pytest.raises(PolicyError, match=f"--audit-policy-file {policy}: "):
        await started(tmp_path / "data", policy)
