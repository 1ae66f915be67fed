"""The work of one pod's life: requests, commits, encodings, admissions and events for each pod.

A life is a pod with a claim from a template that is created, bound, run and deleted. It is counted twice: with API
server, scheduler and claim controller in one process, where nodes are objects without an agent; and in a cluster with
all controllers, where a simulated node runs the pod. Counts do not depend on other work on the machine, so two versions
can be compared by them.

    python -m benchmarks podlife
    python -m benchmarks.podlife
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import msgspec
import uvloop

from benchmarks.scheduler import WORKLOADS, objects
from benchmarks.scheduler.running import Bound, furnish
from benchmarks.scheduler.staging import Arrangement, stage
from cathedra.api.resource import ResourceClaim
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.transport import InProcessTransport
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODS, RESOURCECLAIMS
from cathedra.testing import ClusterOptions, DRACluster

Row = tuple[str, float, str, str | float | None, str | float | None]

WORKLOAD: Final = WORKLOADS[0]
PODS_EACH: Final = 100
LIVES: Final = 20
"""Pods that run one after the other on the simulated node."""
_ENCODES: Final = frozenset({"encode", "encode_into"})
_CODECS: Final = (msgspec.json.Encoder, msgspec.msgpack.Encoder)
_DECODERS: Final = (msgspec.json.Decoder, msgspec.msgpack.Decoder)


def rows() -> Iterator[Row]:
    """The rows of ``make bench``."""
    counted = uvloop.run(_in_one_process())
    for name, number in counted:
        yield f"pod life, no node: {name}", number, "per pod", None, None
    for name, number in _on_simulated_node():
        yield f"pod life, simulated node: {name}", number, "per pod", None, None


# --- what is counted ----------------------------------------------------------------------------------------------


class Tally:
    """Counts by name, taken from the calls of functions."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._readers: dict[CodeType, Callable[[FrameType], None]] = {
            Table.apply.__code__: self._commit,
            StoredChange.broadcast.__code__: self._event,
            InProcessTransport._begin.__code__: self._request,
        }
        for plugin in _all_below(AdmissionPlugin):
            for method in ("admit", "validate"):
                if method in vars(plugin):
                    self._readers[vars(plugin)[method].__code__] = self._admission

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the calls of this thread and of those that begin meanwhile."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            reader = self._readers.get(frame.f_code)
            if reader is not None:
                reader(frame)
        elif event == "c_call":
            name, owner = called.__name__, getattr(called, "__self__", None)
            if name in _ENCODES and isinstance(owner, _CODECS):
                self.counts["encodings"] += 1
            elif name == "decode" and isinstance(owner, _DECODERS):
                self.counts["decodings"] += 1

    def _commit(self, frame: FrameType) -> None:
        table, change = frame.f_locals["self"], frame.f_locals["change"]
        kind = "removed" if change.deleted else "created" if change.previous is None else "changed"
        self.counts["commits"] += 1
        self.counts[f"commits: {table.definition.plural} {kind}"] += 1

    def _event(self, frame: FrameType) -> None:
        self.counts["watch events"] += sum(1 for _ in frame.f_locals["watchers"])

    def _request(self, frame: FrameType) -> None:
        call = frame.f_locals["asked"]
        user = frame.f_locals["self"].user.name.rpartition(":")[2]
        resource = f"{call.ref.resource}/{call.subresource}" if call.subresource else call.ref.resource
        self.counts["requests"] += 1
        self.counts[f"requests: {user} {call.verb} {resource}"] += 1

    def _admission(self, frame: FrameType) -> None:
        self.counts["calls of admission plugins"] += 1


class Opcodes:
    """Number of instructions of Python's bytecode that this thread executes."""

    def __init__(self) -> None:
        self.number = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count while the context lasts. It makes everything a hundred times slower."""
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._executed

    def _executed(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.number += event == "opcode"
        return self._executed


def _all_below(kind: type) -> Iterator[type]:
    below: type
    for below in kind.__subclasses__():
        yield below
        yield from _all_below(below)


def _per_pod(counts: Counter[str], pods: int) -> Iterator[tuple[str, float]]:
    for name in sorted(counts):
        if counts[name] * 10 >= pods:  # less is the work of others, such as renewals of leases
            yield name, counts[name] / pods


# --- the lives ----------------------------------------------------------------------------------------------------


async def _in_one_process() -> list[tuple[str, float]]:
    async with stage(Arrangement.ONE) as found:
        await furnish(found.client, WORKLOAD)
        life = _Lives(found.client, found.informers)
        await life.lead(PODS_EACH)  # memos and caches fill
        tally, opcodes = Tally(), Opcodes()
        with tally.counting():
            await life.lead(PODS_EACH)
        with opcodes.counting():
            await life.lead(PODS_EACH)
        began = time.process_time()
        await life.lead(PODS_EACH * 5)
        took = time.process_time() - began
    return [
        *_per_pod(tally.counts, PODS_EACH),
        ("instructions of bytecode", opcodes.number / PODS_EACH),
        ("processor time in µs", took / PODS_EACH / 5 * 1e6),
    ]


class _Lives:
    """Creates pods in a burst, deletes them once they are bound, and waits until their claims are released."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._bound = Bound(informers)
        self._index = 0
        self._released = 0
        self._changed = asyncio.Event()
        informers.of(RESOURCECLAIMS).add_handler(on_update=self._claim_changed)

    def _claim_changed(self, old: ResourceClaim, new: ResourceClaim) -> None:
        # Without the garbage collector claims stay. The removal of the finalizer is the last write.
        if old.metadata.finalizers and not new.metadata.finalizers:
            self._released += 1
            self._changed.set()

    async def lead(self, count: int) -> None:
        """Take a number of pods through their lives."""
        pods = self._client.resource(PODS, objects.NAMESPACE)
        first, self._index = self._index, self._index + count
        before = self._bound.total
        await asyncio.gather(*(pods.create(objects.pod(WORKLOAD, index)) for index in range(first, self._index)))
        while self._bound.total - before < count:
            await self._bound.names()
        names = [f"pod-{index}" for index in range(first, self._index)]
        await asyncio.gather(*(pods.delete(name, grace_period_seconds=0) for name in names))
        while self._released < self._index:
            self._changed.clear()
            await self._changed.wait()


_MANIFEST: Final = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: template}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
"""


def _on_simulated_node() -> list[tuple[str, float]]:
    """One pod after the other: created, run by a simulated node, deleted by a client over HTTP."""
    tally = Tally()
    # Begun before the cluster: its thread must be counted, and a thread takes the function when it begins.
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        tally.counting(),
        DRACluster(ClusterOptions(), Path(folder)) as cluster,
    ):
        cluster.apply(_MANIFEST)
        _live(cluster, "warm")
        tally.counts.clear()
        for number in range(LIVES):
            _live(cluster, f"pod-{number}")
        return list(_per_pod(tally.counts.copy(), LIVES))


def _live(cluster: DRACluster, name: str) -> None:
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
            },
        }
    )
    cluster.wait_for(f"pod/{name}", "phase=Running")
    claims = [claim.metadata.name for claim in cluster.list("resourceclaims")]
    cluster.delete(f"pod/{name}")
    cluster.wait_for(f"pod/{name}", "delete")
    for claim in claims:
        cluster.wait_for(f"resourceclaim/{claim}", "delete")


if __name__ == "__main__":
    for row in rows():
        print(f"{row[0]:<90} {row[1]:>10.1f}")
