"""Logs that a runtime writes are put aside when they are large."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import pytest

from cathedra.node.runtime.cri import logs
from cathedra.node.runtime.cri.endpoint import CRIEndpoint
from cathedra.node.runtime.cri.logs import LogRotation
from tests.unit.node.runtime.cri.conftest import Node


def write(log: Path, size: int) -> None:
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * size)


async def test_a_large_log_of_a_running_container_begins_anew(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "ROTATE_BYTES", 10)
    await node.runtime.sandboxes.run(node.sandbox())
    large, small, ended = [await node.runtime.start(node.spec(name)) for name in ("large", "small", "ended")]
    node.fake.end(ended.id)
    for name, size in (("large", 11), ("small", 3), ("ended", 11)):
        write(Path(node.spec(name).log_path), size)
    node.fake.failures["ReopenContainerLog"] = (grpc.StatusCode.NOT_FOUND, "it has just ended")
    endpoint = CRIEndpoint(node.socket)
    await LogRotation(endpoint).look(list(node.fake.containers.values()))
    await endpoint.close()
    assert [request.container_id for request in node.fake.of("ReopenContainerLog")] == [large.id]
    [name] = os.listdir(os.path.dirname(node.spec("large").log_path))
    assert name.startswith("0.log.")
    assert os.listdir(os.path.dirname(node.spec("small").log_path)) == ["0.log"]
    assert small.running
