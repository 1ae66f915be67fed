"""Pod sandboxes: one ready sandbox for each pod, identified by its labels; and pinned mounts of volume parts.

docs/spec/node.md §17.2. If the runtime has no pod network (no CNI plugin), pods share the node's: a kubelet would not
become Ready then, but a node for devices should.

Parts of volumes (sub-paths) are pinned: mounted where no container can change them until the runtime has mounted them.
The container shim does this in its own mount namespace (`cathedra.node.shim.pins` has the reason). A runtime behind a
socket sees the host's mounts, so here the pins are mounted on the host, as the kubelet does.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.cri.configuration import NODE, POD_UID, pod_of, sandbox_config
from cathedra.node.runtime.cri.endpoint import CRIEndpoint, CRIError
from cathedra.node.runtime.cri.streaming import forwarded
from cathedra.node.runtime.runtime import (
    ContainerSpec,
    PodIdentity,
    PortConnection,
    RunningSandbox,
    RuntimeFailure,
    SandboxSpec,
)
from cathedra.node.shim.pins import mount_pins, pin_path, release_pins

_LOG = logging.getLogger(__name__)
_REMOVING: Final = "already in removing state"
_WAITS_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Waits between attempts to remove a sandbox whose containers are being removed."""


class Sandbox:
    """A pod's sandbox: its ID, the configuration from which it was created, and the message with it."""

    def __init__(self, sandbox_id: str, spec: SandboxSpec, config: api.PodSandboxConfig) -> None:
        self.id = sandbox_id
        self.spec = spec
        self.config = config


class CRISandboxes:
    """The sandboxes of the node whose label is ``label``."""

    def __init__(self, endpoint: CRIEndpoint, label: str, cgroup: str, *, pod_networks: bool) -> None:
        self._endpoint = endpoint
        self._label = label
        self._cgroup = cgroup
        self._pod_networks = pod_networks
        self._made: dict[str, Sandbox] = {}

    def of(self, pod_uid: str) -> Sandbox | None:
        """Return the sandbox that `run` made or found."""
        return self._made.get(pod_uid)

    async def run(self, spec: SandboxSpec) -> RunningSandbox:
        """Make the pod's sandbox, or find the one that is ready; older ones are removed.

        Raises:
            RuntimeFailure: it cannot be made.
        """
        spec = spec if self._pod_networks else replace(spec, host_network=True)
        try:
            found = await self._list({POD_UID: spec.pod.uid})
            ready = [each for each in found if each.state == api.SANDBOX_READY]
            newest = max(ready, key=lambda each: each.created_at, default=None)
            for other in found:
                if other is not newest:
                    await self._remove(other.id)
            if newest is not None:
                spec = replace(spec, attempt=newest.metadata.attempt)
            else:
                taken = [each.metadata.attempt for each in found]
                spec = replace(spec, attempt=max([spec.attempt, *(attempt + 1 for attempt in taken)]))
            config = sandbox_config(spec, self._label, self._cgroup)
            sandbox_id = newest.id if newest is not None else await self._make(config)
            self._made[spec.pod.uid] = Sandbox(sandbox_id, spec, config)
            return RunningSandbox(sandbox_id, "" if spec.host_network else await self._address(sandbox_id))
        except CRIError as error:
            raise RuntimeFailure("FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}") from error

    async def _make(self, config: api.PodSandboxConfig) -> str:
        answer = await self._endpoint.call("RunPodSandbox", api.RunPodSandboxRequest(config=config))
        made: str = answer.pod_sandbox_id
        return made

    async def _address(self, sandbox_id: str) -> str:
        answer = await self._endpoint.call("PodSandboxStatus", api.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id))
        address: str = answer.status.network.ip
        return address

    async def stop(self, pod_uid: str) -> None:
        """Stop the pod's sandboxes.

        Raises:
            RuntimeFailure: one cannot be stopped.
        """
        try:
            for sandbox in await self._list({POD_UID: pod_uid}):
                await self._endpoint.call("StopPodSandbox", api.StopPodSandboxRequest(pod_sandbox_id=sandbox.id))
        except CRIError as error:
            raise RuntimeFailure("FailedKillPod", str(error)) from error

    async def remove(self, pod_uid: str) -> None:
        """Remove the pod's sandboxes; one that cannot be removed now is removed at the next pass over the node."""
        self._made.pop(pod_uid, None)
        try:
            for sandbox in await self._list({POD_UID: pod_uid}):
                await self._remove(sandbox.id)
        except CRIError as error:
            _LOG.warning("sandbox of pod %s cannot be removed: %s", pod_uid, error)

    async def _remove(self, sandbox_id: str) -> None:
        await self._endpoint.call("StopPodSandbox", api.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))
        request = api.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        for seconds in _WAITS_SECONDS:
            try:
                await self._endpoint.call("RemovePodSandbox", request)
            except CRIError as error:
                # containerd goes on with the removal of a container whose call has been cancelled, and refuses a second
                # one until it is done. An agent that stops has no later pass that would remove the sandbox.
                if _REMOVING not in str(error):
                    raise
                await asyncio.sleep(seconds)
            else:
                return
        await self._endpoint.call("RemovePodSandbox", request)

    async def pods(self) -> tuple[PodIdentity, ...]:
        """Return the pods that have a sandbox; () if the call fails."""
        try:
            found = await self._list({})
        except CRIError as error:
            _LOG.warning("sandboxes cannot be listed: %s", error)
            return ()
        return tuple(dict.fromkeys(pod_of(sandbox.labels) for sandbox in found))

    async def unready(self) -> frozenset[str]:
        """Return UIDs of pods whose sandbox is no longer ready.

        Raises:
            CRIError: the call failed.
        """
        ready = {each.id for each in await self._list({}) if each.state == api.SANDBOX_READY}
        return frozenset(uid for uid, sandbox in self._made.items() if sandbox.id not in ready)

    async def connect(self, pod_uid: str, port: int) -> PortConnection:
        """Connect to a port inside the pod, through the runtime.

        Raises:
            OSError: the port is closed, or the call failed.
        """
        sandbox = self._made.get(pod_uid)
        if sandbox is None:
            raise OSError(f"pod {pod_uid} has no sandbox")
        request = api.PortForwardRequest(pod_sandbox_id=sandbox.id, port=[port])
        try:
            answer = await self._endpoint.call("PortForward", request)
        except CRIError as error:
            raise OSError(str(error)) from error
        return await forwarded(answer.url, port)

    async def _list(self, labels: dict[str, str]) -> list[Any]:
        selector = api.PodSandboxFilter(label_selector={NODE: self._label, **labels})
        answer = await self._endpoint.call("ListPodSandbox", api.ListPodSandboxRequest(filter=selector))
        return list(answer.items)


def pinned(directory: Path, spec: ContainerSpec) -> ContainerSpec:
    """Mount the sub-paths of the container's volumes below ``directory``. Return the container with these as its
    mounts.

    Raises:
        OSError: a part is missing, has become a symbolic link, or cannot be mounted.
    """
    parts = [
        {"number": number, "volume": mount.volume, "part": os.path.relpath(mount.host_path, mount.volume)}
        for number, mount in enumerate(spec.mounts)
        if mount.volume
    ]
    if not parts:
        return spec
    mount_pins(directory, spec.id, parts)
    mounts = [
        replace(mount, host_path=str(pin_path(directory, spec.id, number))) if mount.volume else mount
        for number, mount in enumerate(spec.mounts)
    ]
    return replace(spec, mounts=tuple(mounts))


def release(directory: Path, spec: ContainerSpec) -> None:
    """Unmount the pins, after the container has mounted them. It is no error if there are none."""
    release_pins(directory, spec.id)
