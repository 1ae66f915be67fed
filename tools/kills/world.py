"""A cluster of programs, the work that it does for each kill, and what must be true after it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.client.resources import CONFIGMAPS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, SERVICEACCOUNTS
from cathedra.client.transport import PatchType, ResourceRef
from cathedra.clock import SystemClock
from cathedra.cluster.manifests import Manifest, manifest_of, served_kinds
from cathedra.node.claims.checkpoint import FileCheckpoint
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import is_true
from tools.kills.programs import Program

__all__ = ["NODE", "Violation", "World", "world"]

T = TypeVar("T")
NODE: Final = "node-0"
PATIENCE: Final = 180.0
"""Seconds. Clients that have lost several connections try again within a minute, as those of Kubernetes do."""
LOOK_SECONDS: Final = 0.05
NAMESPACE: Final = "default"
COUNTER: Final = "acknowledged"
HOLD: Final = """
found=0
for gpu in $(env | sed -n 's/^GPU_DEVICE_[0-9]*=//p'); do
  found=$((found+1))
  eval "exec $((found+3))>{folder}/$gpu.lock"
  flock -n $((found+3)) || {{ echo {name} $gpu >> {folder}/conflicts; exit 7; }}
done
[ $found = 2 ] || {{ echo {name} has $found devices >> {folder}/conflicts; exit 8; }}
sleep 0.1
echo {name} >> {folder}/ran
"""


class Violation(AssertionError):
    """Something is not as it must be after a kill."""


class World:
    """The programs and their user."""

    def __init__(self, folder: Path, programs: list[Program], data: Path, root: Path) -> None:
        self.folder, self.programs, self.data, self.root = folder, programs, data, root
        self.mark = folder / "mark"
        self.acknowledged = 0
        self.number = 0
        """Pods so far."""
        self.ended = ""
        """The message of the end of the latest pod's container, if it failed."""
        self._client: Client | None = None
        self._transport: HTTPTransport | None = None

    @property
    def pod(self) -> str:
        """The name of the latest pod."""
        return f"p{self.number}"

    def program(self, part: str) -> Program:
        """Return the program of a part; the shim belongs to the one that starts it."""
        return next(one for one in self.programs if one.part == part)

    def of(self, ref: ResourceRef[Any]) -> Any:
        """Return the verbs of a resource for the administrator."""
        assert self._client is not None
        return self._client.resource(ref, NAMESPACE if ref.namespaced else "")

    async def connect(self) -> None:
        """Open the administrator's client."""
        self._transport = await HTTPTransport.open(load(self.data / "kubeconfig"))
        self._client = Client(self._transport, clock=SystemClock(), field_manager="kills")

    async def close(self) -> None:
        """Close it."""
        if self._client is not None:
            await self._client.close()

    async def sure(self, attempt: Callable[[], Awaitable[T]], *, done: Callable[[StatusError], bool]) -> T | None:
        """Repeat a request until it is answered. Return None for a refusal which shows that it was carried out."""
        while True:
            try:
                return await attempt()
            except StatusError as error:
                if done(error):
                    return None
                if error.code < 500 and not error.is_conflict:
                    raise
            except (OSError, TimeoutError):
                pass
            await asyncio.sleep(LOOK_SECONDS)

    async def readiness(self) -> str:
        """Return the server's answer to ``/readyz?verbose``, whether it is ready or not."""
        assert self._transport is not None
        try:
            return (await self._transport.get_raw("/readyz?verbose")).decode()
        except StatusError as error:
            return str(error)

    async def create(self, document: dict[str, Any]) -> None:
        """Create an object, however often the server dies meanwhile."""
        ref, obj = _object(document)
        await self.sure(lambda: self.of(ref).create(obj), done=lambda error: error.is_already_exists)

    async def get(self, ref: ResourceRef[Any], name: str) -> Any:
        """Return the object, or None."""
        return await self.sure(lambda: self.of(ref).get(name), done=lambda error: error.is_not_found)

    async def list(self, ref: ResourceRef[Any]) -> tuple[Any, ...]:
        """Return all objects of a resource."""
        page = await self.sure(lambda: self.of(ref).list(), done=lambda _: False)
        assert page is not None
        items: tuple[Any, ...] = page.items
        return items

    async def delete(self, ref: ResourceRef[Any], name: str) -> None:
        """Delete an object."""
        await self.sure(lambda: self.of(ref).delete(name), done=lambda error: error.is_not_found)

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition.

        Raises:
            Violation: it does not come true.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not await condition():  # noqa: ASYNC110  # parts of the cluster set no event here
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError as error:
            pods = [(pod.metadata.name, pod.status.phase) for pod in await self.list(PODS)]
            raise Violation(f"{what} does not happen within {PATIENCE:.0f} s; pods: {pods}") from error

    async def prepare(self) -> None:
        """Wait for the node and its devices; create the class, the template and the counter."""

        async def ready() -> bool:
            nodes = await self.list(NODES)
            return any(is_true(node.status.conditions, "Ready") for node in nodes) and bool(
                await self.list(RESOURCESLICES)
            )

        async def account() -> bool:
            return await self.get(SERVICEACCOUNTS, "default") is not None

        await self.until("the node becomes ready", ready)
        await self.until("the service account is created", account)
        for document in FIXTURES:
            await self.create(document)

    async def run_next(self, *, may_fail: bool = False, annotation: str = "") -> None:
        """Let one pod with two claims run and go, and check all that must be true; ``may_fail``: its container too.
        The first claim has the annotation.

        Raises:
            Violation: something is not.
        """
        self.number += 1
        pod, claim = self.pod, f"c{self.number}"
        await self._count()
        await self.create(CLAIM | {"metadata": {"name": claim, "annotations": {"size": annotation}}})
        await self.create(_pod(pod, claim, self.folder))

        async def over() -> bool:
            found = await self.get(PODS, pod)
            return found is not None and found.status.phase in ("Succeeded", "Failed")

        await self.until(f"the end of pod {pod}", over)
        await self._check_holders()
        found = await self.get(PODS, pod)
        ends = [one.state.terminated for one in found.status.container_statuses if one.state.terminated is not None]
        self.ended = f"{ends[0].reason}: {ends[0].message}" if ends else ""
        if found.status.phase == "Failed" and not may_fail:
            raise Violation(f"pod {pod} failed: {found.status.container_statuses or found.status.message}")
        await self.delete(PODS, pod)

        async def freed() -> bool:
            claims = await self.list(RESOURCECLAIMS)
            return [one.metadata.name for one in claims] == [claim] and claims[0].status.allocation is None

        await self.until(f"the release of all claims of pod {pod}", freed)
        await self.delete(RESOURCECLAIMS, claim)

        async def unprepared() -> bool:
            left = list(self.root.glob("cdi/*claim*"))
            return not left and not FileCheckpoint(self.root / "dra_manager_state").load()

        await self.until(f"the node has unprepared all claims of pod {pod}", unprepared)
        conflicts = self.folder / "conflicts"
        if conflicts.exists():
            raise Violation(conflicts.read_text())
        ran = (self.folder / "ran").read_text().split() if (self.folder / "ran").exists() else []
        if ran.count(pod) != 1 and not may_fail:
            raise Violation(f"the container of {pod} ran {ran.count(pod)} times")

    async def _count(self) -> None:
        """Write the next number, after a check that the last one is there."""
        found = await self.get(CONFIGMAPS, COUNTER)
        value = int(found.data["value"])
        if value != self.acknowledged:
            raise Violation(f"the counter is {value}, but {self.acknowledged} was acknowledged")
        patch = {"data": {"value": str(value + 1)}}
        await self.sure(lambda: self.of(CONFIGMAPS).patch(COUNTER, PatchType.MERGE, patch), done=lambda _: False)
        self.acknowledged = value + 1

    async def _check_holders(self) -> None:
        claims, pods = await self.list(RESOURCECLAIMS), {pod.metadata.uid for pod in await self.list(PODS)}
        held: Counter[tuple[str, str, str]] = Counter()
        for claim in claims:
            if claim.status.allocation is not None:
                held.update((one.driver, one.pool, one.device) for one in claim.status.allocation.devices.results)
            strangers = {user.uid for user in claim.status.reserved_for} - pods
            if (
                strangers
                and claim.metadata.deletion_timestamp is None
                and len(strangers) == len(claim.status.reserved_for)
                and not pods
            ):
                raise Violation(f"claim {claim.metadata.name} is reserved for pods that do not exist")
        twice = [device for device, count in held.items() if count > 1]
        if twice:
            raise Violation(f"devices with two claims: {twice}")


@asynccontextmanager
async def world(folder: Path, *, together: bool) -> AsyncIterator[World]:
    """A cluster in one process, or in five."""
    data, root = folder / "data", folder / "node"
    if together:
        options = ["up", f"--data-dir={data}", "--nodes=1", "--gpus=2", "--runtime=process", "--no-merge"]
        root = data / "nodes" / NODE
        programs = [Program("all-in-one", options, folder, "ready in")]
    else:
        programs = [Program("API server", ["apiserver", f"--data-dir={data}"], folder, "export KUBECONFIG=")]
    made = World(folder, programs, data, root)
    try:
        programs[0].start()
        if not await programs[0].until_ready():
            raise Violation(programs[0].said())
        if not together:
            programs += _others(folder, data, root)
            for one in programs[1:]:
                one.start()
        await made.connect()
        await made.prepare()
        yield made
    finally:
        await made.close()
        for one in reversed(programs):
            one.stop()


def _others(folder: Path, data: Path, root: Path) -> list[Program]:
    files = folder / "files"
    command = [sys.executable, "-m", "cathedra.cli.main", "enrol", f"--data-dir={data}", f"--node-name={NODE}"]
    subprocess.run([*command, f"--to={files}"], check=True, capture_output=True)
    where = f"--kubeconfig={data / 'kubeconfig'}"
    node = (f"--node-name={NODE}", f"--root-dir={root}")
    enrolled = (
        f"--kubeconfig={files / 'kubeconfig'}",
        f"--tls-cert-file={files / 'kubelet.crt'}",
        f"--tls-private-key-file={files / 'kubelet.key'}",
        f"--client-ca-file={files / 'client-ca.crt'}",
    )
    return [
        Program("controller manager", ["controller-manager", where], folder),
        Program("scheduler", ["scheduler", where], folder),
        Program("node agent", ["node", *node, *enrolled, "--runtime=process"], folder),
        Program("driver", ["driver", where, *node, "--gpus=2"], folder),
    ]


_KINDS: Final = served_kinds(FeatureGates.for_release())


def _object(document: dict[str, Any]) -> Manifest:
    return manifest_of(json.loads(json.dumps(document)), _KINDS, "kills")


_REQUESTS: Final = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "kills"}}]}}
CLAIM: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": _REQUESTS}
FIXTURES: Final = (
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "kills"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": NAMESPACE},
        "spec": {"spec": _REQUESTS},
    },
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": COUNTER}, "data": {"value": "0"}},
)


def _pod(name: str, claim: str, folder: Path) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "host",
        "command": ["sh", "-c", HOLD.format(folder=folder, name=name)],
        "resources": {"claims": [{"name": "own"}, {"name": "made"}]},
        "volumeMounts": [{"name": "shared", "mountPath": str(folder)}],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "resourceClaims": [
            {"name": "own", "resourceClaimName": claim},
            {"name": "made", "resourceClaimTemplateName": "one"},
        ],
        "volumes": [{"name": "shared", "hostPath": {"path": str(folder)}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
