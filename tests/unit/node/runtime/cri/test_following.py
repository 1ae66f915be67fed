"""The ends of containers: by events, by looking, and what a status means."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import pytest

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.cri import following
from cathedra.node.runtime.cri.endpoint import CRIEndpoint
from cathedra.node.runtime.cri.following import LogRotation, run_of
from tests.unit.node.runtime.cri.conftest import Node


def status(**settings: object) -> api.ContainerStatus:
    settings = {"id": "c1", "created_at": 10**9, "started_at": 2 * 10**9, **settings}
    return api.ContainerStatus(metadata=api.ContainerMetadata(name="c", attempt=2), **settings)  # type: ignore[arg-type]


def test_a_running_container_has_no_end() -> None:
    run = run_of(status(state=api.CONTAINER_RUNNING))
    assert (run.id, run.name, run.attempt, run.started_at, run.running) == ("c1", "c", 2, 2.0, True)


@pytest.mark.parametrize(
    ("code", "reason", "shown"), [(0, "", "Completed"), (1, "", "Error"), (137, "OOMKilled", "OOMKilled")]
)
def test_an_end_has_a_reason(code: int, reason: str, shown: str) -> None:
    ended = status(state=api.CONTAINER_EXITED, exit_code=code, reason=reason, message="m", finished_at=3 * 10**9)
    run = run_of(ended)
    assert (run.exit_code, run.reason, run.message, run.finished_at) == (code, shown, "m", 3.0)


async def test_without_events_the_end_is_noticed_by_looking(served: Node) -> None:
    served.fake.events = False
    async with served.agent():
        await served.runtime.sandboxes.run(served.sandbox())
        run = await served.runtime.start(served.spec())
        served.fake.end(run.id, 1)
        await served.until(lambda: bool(served.ended))
    assert served.ended[0].exit_code == 1


async def test_a_container_in_an_unknown_state_is_killed_and_counts_as_lost(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    run = await node.runtime.start(node.spec())
    node.fake.containers[run.id].state = api.CONTAINER_UNKNOWN
    node.fake._tell(run.id, api.CONTAINER_STOPPED_EVENT)
    await node.until(lambda: bool(node.ended))
    assert node.ended[0].exit_code == 137
    assert node.fake.of("StopContainer")


def write(log: Path, size: int) -> None:
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * size)


async def test_a_large_log_of_a_running_container_begins_anew(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "ROTATE_BYTES", 10)
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
