"""Setup of a pod before its containers start, and its teardown: directories, volumes, claims, cgroup, sandbox.

docs/spec/node.md §7, §9 and §17.2. Each step is retried until it succeeds. Pauses end early when the pod changes or a
driver registers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cathedra.client.backoff import DoublingPauses
from cathedra.node.claims.checkpoint import PrepareError, UnprepareError
from cathedra.node.concurrency import Wakeup
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.lifecycle import PodLifecycle
from cathedra.node.pods.podobject import PodObject
from cathedra.node.pods.resizer import ResourceGrants
from cathedra.node.runtime.runtime import RuntimeFailure
from cathedra.node.setup.directories import PodDirectories
from cathedra.node.setup.launch import identity_of, sandbox_spec
from cathedra.node.setup.references import VolumeError
from cathedra.node.setup.volumes import VolumeMaker, is_payload, mounts_are_shared

_VOLUME_RETRY: Final = (2.0, 120.0)
_VOLUME_REFRESH: Final = 60.0
"""Seconds, up to half as many more, after which volumes are brought up to date."""
_SANDBOX_RETRY: Final = (2.0, 60.0)
"""First and longest pause, in seconds, after a sandbox could not be made or stopped."""
_LOG = logging.getLogger(__name__)


class PodPreparation:
    """Volumes, claims and sandbox of one pod."""

    __slots__ = ("_context", "_directories", "_generation", "_maker", "_pod", "_sandbox", "_volumes", "_wakeup", "life")

    def __init__(self, pod: PodObject, life: PodLifecycle, context: PodContext, wakeup: Wakeup) -> None:
        self._pod = pod
        self.life = life
        self._sandbox = ""
        self._context = context
        self._wakeup = wakeup
        self._directories = context.directories(pod.pod)
        # From the disk: IDs of containers contain it, and an agent that starts again must find its own containers.
        self._generation = max(self._directories.generation(), 1) if self._directories is not None else 1
        self._maker: VolumeMaker | None = None
        self._volumes: Mapping[str, str] = {}

    @property
    def directories(self) -> PodDirectories | None:
        """The pod's directories; None on a node without a disk."""
        return self._directories

    @property
    def generation(self) -> int:
        """Number of times the pod was set up from the beginning on this node."""
        return self._generation

    @property
    def volumes(self) -> Mapping[str, str]:
        """Volume name → path on the node."""
        return self._volumes

    async def begin(self, *, anew: bool) -> None:
        """Create the pod's directories; retry until they exist. With ``anew`` the pod was set up before, and its old
        volumes are discarded.
        """
        if self._directories is None:
            return
        if anew:
            self._generation += 1
        pauses = DoublingPauses(*_VOLUME_RETRY)
        while True:
            try:
                self._directories.make()
                # On disk before the first container starts: an agent that is killed now must not give the same IDs to
                # other runs.
                self._directories.set_generation(self._generation)
            except OSError as error:
                self._warn("FailedToMakePodDataDirectories", f"error making pod data directories: {error}")
                await self._wakeup.wait(pauses.take())
            else:
                return

    async def make_volumes(self) -> None:
        """Create the volumes; retry until all exist."""
        if self._directories is None:
            return
        pauses = DoublingPauses(*_VOLUME_RETRY)
        while True:
            context = self._context
            # New for each attempt: the pod may have changed meanwhile, and a missing config map may exist now.
            maker = VolumeMaker(
                context.client,
                self._pod.pod,
                self._directories,
                context.facts,
                context.clock,
                memory=self._can_mount(self._directories),
            )
            try:
                self._volumes = await maker.make()
            except VolumeError as error:
                self._warn("FailedMount", str(error))
                # Ends early when the pod changes: its deletion must not wait for the pause.
                await self._wakeup.wait(pauses.take())
            else:
                self._maker = maker
                return

    def _can_mount(self, directories: PodDirectories) -> bool:
        """Return True if containers see new mounts: those of a runtime with images, and of a shim where mounts are
        shared.
        """
        sources = [volume.empty_dir for volume in self._pod.pod.spec.volumes]
        if not any(source is not None and source.medium == "Memory" for source in sources):
            return False
        return os.geteuid() == 0 and (self._context.runtime.images is not None or mounts_are_shared(directories.home))

    async def refresh_volumes(self) -> None:
        """Update config maps, secrets and tokens in volumes while the pod runs, until cancelled."""
        # Most pods have only the token, which is such a volume; the others need no timer.
        if self._maker is None or not any(is_payload(volume) for volume in self._pod.pod.spec.volumes):
            return
        while True:
            # Spread at random, or all pods of a node would read their secrets in the same second after a start.
            await self._context.clock.sleep(_VOLUME_REFRESH * (1 + 0.5 * self._context.random.random()))
            try:
                await self._maker.refresh(self._pod.pod)
            except VolumeError as error:
                self._warn("FailedMount", str(error))

    async def prepare_claims(self, after_failure: Callable[[], Awaitable[object]]) -> None:
        """Prepare the pod's claims; retry until all are prepared. ``after_failure`` runs before each pause."""
        pauses = DoublingPauses(*self._context.config.prepare_retry)
        while True:
            try:
                await self._context.claims.prepare(self._pod.pod)
            except PrepareError as error:
                self._warn("FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {error}")
                # The status shows the failure before the pause begins.
                await after_failure()
                await self._wakeup.wait(pauses.take())
            else:
                return

    async def make_cgroup(self, grants: ResourceGrants, after_failure: Callable[[], Awaitable[object]]) -> None:
        """Create the pod's cgroup, if pods have cgroups; retry. ``after_failure`` runs before each pause."""
        cgroups, pauses = self._context.cgroups, DoublingPauses(*_SANDBOX_RETRY)
        while cgroups is not None:
            try:
                cgroups.apply(grants.of(self._pod.pod))
            except OSError as error:
                self._warn("FailedCreatePodContainer", f"unable to ensure pod container exists: {error}")
                await after_failure()
                await self._wakeup.wait(pauses.take())
            else:
                return

    def remove_cgroup(self) -> None:
        """Remove the pod's cgroup. No container of the pod may run."""
        if self._context.cgroups is not None:
            self._context.cgroups.remove(self._pod.pod)

    def release_devices(self) -> None:
        """Release the devices of device plugins. No container of the pod may run."""
        if self._context.devices is not None:
            self._context.devices.release(self._pod.pod.metadata.uid)

    async def make_sandbox(self, after_failure: Callable[[], Awaitable[object]]) -> None:
        """Create the pod's sandbox, if the runtime has sandboxes; retry. ``after_failure`` runs before each pause."""
        pauses = DoublingPauses(*_SANDBOX_RETRY)
        while True:
            try:
                await self._run_sandbox()
            except RuntimeFailure as error:
                self._warn("FailedCreatePodSandBox", error.message)
                await after_failure()
                await self._wakeup.wait(pauses.take())
            else:
                return

    async def keep_sandbox(self) -> None:
        """Create the sandbox again if it has ended.

        Raises:
            RuntimeFailure: it cannot be created now.
        """
        if await self._run_sandbox():
            text = "Pod sandbox changed, it will be killed and re-created."
            self._context.recorder.record(self._pod.pod, "Normal", "SandboxChanged", text)

    async def _run_sandbox(self) -> bool:
        """Ensure the sandbox. Return True if it replaces an earlier one."""
        sandboxes = self._context.runtime.sandboxes
        if sandboxes is None:
            return False
        found = await sandboxes.run(sandbox_spec(self._pod.pod, self._directories, self._generation - 1))
        # Before containers start: their environment may contain the pod's address.
        self.life.note_address(found.address)
        # The first sandbox of this agent's life is no replacement, although an earlier agent may have made it.
        changed = self._sandbox not in ("", found.id)
        self._sandbox = found.id
        return changed

    async def stop_sandbox(self) -> None:
        """Stop the sandbox; retry until nothing of the pod runs."""
        sandboxes = self._context.runtime.sandboxes
        if sandboxes is None:
            return
        pauses = DoublingPauses(*_SANDBOX_RETRY)
        while True:
            try:
                await sandboxes.stop(self._pod.pod.metadata.uid)
            except RuntimeFailure as error:
                self._warn("FailedKillPod", f"error killing pod: {error.message}")
                await self._wakeup.wait(pauses.take())
            else:
                return

    async def remove_sandbox(self) -> None:
        """Remove the sandbox and the containers in it."""
        sandboxes = self._context.runtime.sandboxes
        if sandboxes is not None:
            await sandboxes.remove(self._pod.pod.metadata.uid)

    async def unprepare_claims(self) -> None:
        """Unprepare the pod's claims; retry until all are."""
        while True:
            try:
                await self._context.claims.unprepare(self._pod.pod.metadata.uid)
            except UnprepareError as error:
                _LOG.warning("pod %s: %s", identity_of(self._pod.pod), error)
                # Kubelets only log this. Without an event a user cannot see why the pod stays Terminating.
                self._warn("FailedUnprepareDynamicResources", f"Failed to unprepare dynamic resources: {error}")
                seconds = self._context.config.unprepare_retry
                # A driver that registers again ends the pause.
                await self._wakeup.wait(seconds * (1 + 0.5 * self._context.random.random()))
            else:
                return

    def _warn(self, reason: str, message: str) -> None:
        self._context.recorder.record(self._pod.pod, "Warning", reason, message)
