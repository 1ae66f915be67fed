"""What a test can do to its cluster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.cluster.manifests import ManifestError
from cathedra.testing import DRACluster, NotInTime
from cathedra.testing.actions import AdvanceableLoop
from tests.running import run_with
from tests.unit.testing.manifests import pod_with


@pytest.mark.dra_cluster(nodes=2, profile="h100-8")
def test_a_pod_gets_devices_of_the_profile_and_frees_them(dra_cluster: DRACluster) -> None:
    made = dra_cluster.apply(pod_with(4))
    assert [type(one).__name__ for one in made] == ["ResourceClaimTemplate", "Pod"]
    pod = dra_cluster.wait_for("pod/train", "condition=Ready")
    (claim,) = dra_cluster.list("resourceclaims")
    assert [one.driver for one in claim.status.allocation.devices.results] == ["gpu.nvidia.com"] * 4
    assert pod.status.phase == "Running"
    dra_cluster.delete("po/train")
    assert dra_cluster.wait_for("pod/train", "delete") is None
    assert dra_cluster.wait_for(f"resourceclaim/{claim.metadata.name}", "delete") is None


def test_what_is_applied_again_is_changed(dra_cluster: DRACluster) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    dra_cluster.apply(manifest)
    dra_cluster.apply({**manifest, "data": {"a": "2"}})
    assert dra_cluster.get("configmap/c").data == {"a": "2"}
    (typed,) = dra_cluster.apply(
        ConfigMap(metadata=ObjectMeta(generate_name="t-"), data={"x": "y"}), namespace="default"
    )
    assert typed.metadata.name.startswith("t-")
    dra_cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    dra_cluster.apply(manifest, namespace="other")
    assert [one.metadata.namespace for one in dra_cluster.list("cm") if one.metadata.name == "c"] == [
        "default",
        "other",
    ]


def test_what_cannot_be_is_refused_with_a_reason(dra_cluster: DRACluster) -> None:
    with pytest.raises(ManifestError, match="document 0: no kind Toy is served in x/v1"):
        dra_cluster.apply({"apiVersion": "x/v1", "kind": "Toy", "metadata": {"name": "t"}})
    with pytest.raises(ManifestError, match="document 0: Pod: Expected `array`"):
        dra_cluster.apply({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": "no"}})
    with pytest.raises(StatusError, match=r"spec.containers: Required value"):
        dra_cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}})
    with pytest.raises(ManifestError, match="there is no kind 'toy'"):
        dra_cluster.get("toy/t")
    with pytest.raises(ManifestError, match="'train' is not of the form KIND/NAME"):
        dra_cluster.get("train")
    with pytest.raises(ManifestError, match="'ready' is none of condition=NAME"):
        dra_cluster.wait_for("node/node-0", "ready")
    with pytest.raises(StatusError) as caught:
        dra_cluster.get("pod/train")
    assert caught.value.is_not_found


@pytest.mark.dra_cluster(profile="gaudi3-8")
def test_a_wait_that_fails_tells_the_status_and_why_the_pod_waits(dra_cluster: DRACluster) -> None:
    dra_cluster.apply(pod_with(9, "gaudi.intel.com"))
    dra_cluster.wait_for("pod/train", "condition=PodScheduled=False")
    with pytest.raises(NotInTime) as caught:
        dra_cluster.wait_for("pod/train", "phase=Running", timeout=0.1)
    text = str(caught.value)
    assert text.startswith("pod/train is not phase=Running after 0.1 s; its status is {'phase': 'Pending'")
    assert "request 'devices' needs 9, 8 devices in reach" in text
    with pytest.raises(NotInTime, match=r"pod/no is not .* its status is unknown: it is not there"):
        dra_cluster.wait_for("pod/no", lambda pod: pod.status.phase == "Running", timeout=0.1)


@pytest.mark.dra_cluster(profile="gaudi3-8")
def test_a_pod_that_waits_is_explained(dra_cluster: DRACluster) -> None:
    assert dra_cluster.waiting() == ""
    dra_cluster.apply([pod_with(9, "gaudi.intel.com", name=f"train-{number}") for number in range(7)])
    dra_cluster.wait_for("pod/train-6", "condition=PodScheduled=False")
    told = dra_cluster.waiting()
    assert told.count("does not fit on node-0") == 5
    assert told.endswith("2 more pods wait")
    answer = dra_cluster.explain("pod/train-6")
    assert not answer.fits
    dra_cluster.add_nodes(profile="gaudi3-8")
    assert not dra_cluster.explain("pod/train-6").fits


@pytest.mark.dra_cluster(nodes=1, profile="mi300x-8")
def test_nodes_of_other_profiles_can_be_added(dra_cluster: DRACluster) -> None:
    assert dra_cluster.add_nodes(2, profile="h100-8") == ("h100-8-0", "h100-8-1")
    assert dra_cluster.add_nodes() == ("node-1",)
    found = {(one.spec.node_name, one.spec.driver) for one in dra_cluster.list("resourceslices")}
    assert found == {
        ("node-0", "gpu.amd.com"),
        ("node-1", "gpu.amd.com"),
        ("h100-8-0", "gpu.nvidia.com"),
        ("h100-8-1", "gpu.nvidia.com"),
    }
    dra_cluster.apply(pod_with(8))
    assert dra_cluster.wait_for("pod/train", "phase=Running").spec.node_name.startswith("h100-8-")


@pytest.mark.dra_cluster(nodes=2, profile="h100-8")
def test_a_node_without_power_loses_its_pods_when_time_has_passed(dra_cluster: DRACluster) -> None:
    dra_cluster.apply(pod_with(4))
    node = dra_cluster.wait_for("pod/train", "phase=Running").spec.node_name
    dra_cluster.silence_node(node)
    dra_cluster.advance(60)
    assert [one.key for one in dra_cluster.get(f"node/{node}").spec.taints] == ["node.kubernetes.io/unreachable"] * 2
    assert dra_cluster.get("pod/train").metadata.deletion_timestamp is None
    dra_cluster.advance(400)  # pods tolerate it for 300 s by default
    assert dra_cluster.get("pod/train").metadata.deletion_timestamp is not None


def test_a_status_can_be_written_as_its_owner_would(dra_cluster: DRACluster) -> None:
    condition = {"type": "Broken", "status": "True", "reason": "Test", "message": "by a test"}
    dra_cluster.patch_status("node/node-0", {"conditions": [condition]})
    assert dra_cluster.wait_for("node/node-0", "condition=Broken")


@pytest.mark.dra_cluster(kubernetes_version="1.34", gpus=2)
def test_releases_differ_in_what_they_serve(dra_cluster: DRACluster) -> None:
    (slice_,) = dra_cluster.list("resourceslices")
    assert len(slice_.spec.devices) == 2
    assert dra_cluster.get("node/node-0").status.node_info.kubelet_version == "v1.34.0"


TOYS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "toys.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "toys", "singular": "toy", "kind": "Toy"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
TOY = {"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "bear"}, "spec": {"legs": 4}}


def test_custom_resources_are_kinds_like_others(dra_cluster: DRACluster) -> None:
    """Their definition and they themselves may be in one file."""
    assert [one.metadata.name for one in dra_cluster.apply([TOYS, TOY])] == ["toys.example.com", "bear"]
    assert dra_cluster.get("toy/bear").spec == {"legs": 4}
    dra_cluster.patch_status(
        "toys.example.com/bear", {"phase": "Sewn", "conditions": [{"type": "A", "status": "True"}]}
    )
    assert dra_cluster.wait_for("toy/bear", "phase=Sewn").status["phase"] == "Sewn"
    assert dra_cluster.wait_for("toys/bear", "condition=a").metadata.name == "bear"
    assert [one.metadata.name for one in dra_cluster.list("toys")] == ["bear"]
    dra_cluster.delete("toy/bear")
    dra_cluster.wait_for("toy/bear", "delete")


def test_a_phase_that_a_kind_never_has_is_refused(dra_cluster: DRACluster) -> None:
    with pytest.raises(ManifestError, match="a Pod is never in phase 'Runing': its phases are Pending, Running"):
        dra_cluster.wait_for("pod/p", "phase=Runing")
    with pytest.raises(ManifestError, match="a Node is never in phase 'Ready': it has none; wait for a condition"):
        dra_cluster.wait_for("node/node-0", "phase=Ready")


def test_a_failure_is_shown_at_the_line_of_the_test(dra_cluster: DRACluster) -> None:
    with pytest.raises(NotInTime) as caught:
        dra_cluster.wait_for("node/node-0", "condition=Purple", timeout=0.1)
    shown = [entry.path for entry in caught.traceback.filter(caught)]
    assert {str(path) for path in shown} == {__file__}


# Time that is moved on: timers run in order, sockets still work, and real time passes as ever.

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
        return runner.run(main)


def this_loop() -> AdvanceableLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdvanceableLoop)
    return loop


def test_what_is_due_happens_in_its_order_and_at_its_time() -> None:
    async def main() -> list[tuple[str, int]]:
        loop, seen = this_loop(), list[tuple[str, int]]()
        began = loop.time()

        async def sleeper(name: str, seconds: float) -> None:
            for _ in range(2):
                await asyncio.sleep(seconds)
                seen.append((name, round(loop.time() - began)))

        tasks = [asyncio.ensure_future(sleeper(name, seconds)) for name, seconds in (("a", 3600), ("b", 2500))]
        await loop.advance(6000)
        for task in tasks:
            task.cancel()
        return seen

    assert run(main()) == [("b", 2500), ("a", 3600), ("b", 5000)]


def test_time_moves_by_what_was_asked_for() -> None:
    async def main() -> float:
        loop = this_loop()
        before = loop.time()
        await loop.advance(1000)
        await loop.advance(500)
        return loop.time() - before

    assert 1500 <= run(main()) < 1560


def test_a_chain_of_what_follows_at_once_has_run_when_it_returns() -> None:
    async def main() -> int:
        steps = 0

        async def chain() -> None:
            nonlocal steps
            await asyncio.sleep(10)
            for _ in range(100):
                await asyncio.sleep(0)
                steps += 1

        task = asyncio.ensure_future(chain())
        await this_loop().advance(10)
        assert task.done()
        return steps

    assert run(main()) == 100


def test_sockets_are_served_while_time_stands() -> None:
    async def main() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(b"ping")
                return connection.recv(4)

        answer = await asyncio.to_thread(ask)
        server.close()
        return answer

    assert run(main()) == b"ping"


def test_a_loop_in_a_hurry_waits_for_no_timer() -> None:
    async def main() -> float:
        loop = this_loop()
        before = loop.time()
        loop.hurry()
        await asyncio.sleep(3600)
        return loop.time() - before

    assert run(main()) >= 3600


@run_with(lambda test: run(test()))
async def test_time_does_not_run_backwards_nor_twice_at_once() -> None:
    loop = this_loop()
    with pytest.raises(ValueError, match="time does not run backwards: -1"):
        await loop.advance(-1)
    first = asyncio.ensure_future(loop.advance(1))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="is being advanced already"):
        await loop.advance(1)
    await first
