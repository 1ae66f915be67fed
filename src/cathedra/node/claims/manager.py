"""Preparing and unpreparing the claims of pods (docs/spec/node.md §7, §9 and §10).

A pod's reference to a claim is on disk before the first driver is called, and is removed only after the last driver has
unprepared. After a crash in between, a driver is called again; a prepared claim is never forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.clock import Clock
from cathedra.node.claims.checkpoint import (
    CheckpointStore,
    ClaimError,
    ClaimInfo,
    ClaimInfoCache,
    DriverState,
    PrepareError,
    UnprepareError,
)
from cathedra.node.concurrency import Event
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import (
    ClaimReference,
    PluginCallError,
    PluginClient,
    PluginDevice,
    PluginNotRegistered,
    PrepareOutcome,
)
from cathedra.node.plugins.registry import PluginRegistry
from cathedra.releases import FeatureGates
from cathedra.semantics.podclaims import (
    EntryClaim,
    NotOwner,
    PodClaimError,
    check_owner,
    entry_claim,
    extended_claim_name,
    is_reserved_for_group_named,
    pod_group_name,
)

_ERROR_LENGTH: Final = 4096
"""Characters of a driver's error that are passed on, to events and logs."""
RECONCILE_SECONDS: Final = 60.0
"""Interval of the search for prepared claims of pods that no longer exist."""

_LOG = logging.getLogger(__name__)
R = TypeVar("R")


class _Checked(msgspec.Struct, frozen=True):
    """A claim that the pod may use, and the drivers it needs."""

    claim: ResourceClaim
    drivers: Mapping[str, DriverState]


class ClaimManager:
    """Prepares claims before a pod's containers start and unprepares them after the last one stopped."""

    def __init__(
        self,
        client: Client,
        registry: PluginRegistry,
        store: CheckpointStore,
        *,
        clock: Clock,
        gates: FeatureGates,
        metrics: NodeMetrics,
    ) -> None:
        self.cache = ClaimInfoCache()
        self._client = client
        self._registry = registry
        self._store = store
        self._clock = clock
        self._gates = gates
        self._metrics = metrics
        self._look_again = Event()

    def recover(self) -> None:
        """Take over what an earlier process knew; every claim counts as not prepared.

        Raises:
            CorruptCheckpoint: that cannot be trusted. Nothing must start then.
        """
        for info in self._store.load():
            self.cache.add(info)
        self._count_claims()

    async def prepare(self, pod: Pod) -> None:
        """Prepare all claims of ``pod``.

        Raises:
            PrepareError: a claim could not be prepared. Finished claims stay prepared, and the next attempt continues.
        """
        with self._metrics.operation("PrepareResources"):
            try:
                await self._prepare(pod)
            except (ClaimError, PluginNotRegistered) as error:
                raise PrepareError(f"prepare dynamic resources: {error}") from error

    async def _prepare(self, pod: Pod) -> None:
        wanted = list(pod_claims(pod, self._gates))
        checked: list[_Checked] = []
        clients: dict[str, PluginClient] = {}
        # All claims are checked before anything is changed: a pod that may not use one of its claims must not leave
        # references to the others.
        for entry in wanted:
            claim = await self._fetch(pod.metadata.namespace, entry.name)
            check_allowed(pod, claim, entry, self._gates)
            drivers = driver_states(claim, self._gates)
            for driver, state in drivers.items():
                if not state.skips_prepare:
                    clients[driver] = self._registry.get(driver).client
            checked.append(_Checked(claim, drivers))
        # The references are on disk before the first call. If the agent dies during a call, the next one finds the
        # claim in the checkpoint and unprepares it; without the reference the devices would stay prepared for good.
        batches = await self._reference(pod, checked)
        for driver, infos in batches.items():
            answers = await self._call("NodePrepareResources", clients[driver].prepare, infos)
            self._enter_devices(driver, infos, answers)
        await self._finish(pod, [item.claim.metadata.name for item in checked])

    async def _fetch(self, namespace: str, name: str) -> ResourceClaim:
        try:
            return await self._client.resource(RESOURCECLAIMS, namespace).get(name)
        except (StatusError, ConnectionError) as error:
            raise PrepareError(f"fetch ResourceClaim {name}: {error}") from error

    async def _reference(self, pod: Pod, checked: Sequence[_Checked]) -> dict[str, list[ClaimInfo]]:
        """Note that the pod uses the claims; answers what each driver has to prepare."""
        batches: dict[str, list[ClaimInfo]] = {}
        for item in checked:
            info = self._info_for(item)
            if pod.metadata.uid not in info.pod_uids:
                await self._refer(info, pod.metadata.uid)
            if info.prepared:
                continue
            for driver, state in info.drivers.items():
                if state.skips_prepare:
                    self._metrics.prepare_skipped(driver)
                    continue
                batch = batches.setdefault(driver, [])
                if info not in batch:
                    batch.append(info)
        return batches

    async def _refer(self, info: ClaimInfo, pod_uid: str) -> None:
        """Put the pod's reference to a claim on disk, or have none at all."""
        # Added before the write, so that the file has it; taken back if the write fails or is cancelled. Otherwise the
        # next attempt would believe that the reference is on disk.
        info.pod_uids.add(pod_uid)
        try:
            await self._save()
        except BaseException as error:
            info.pod_uids.discard(pod_uid)
            if not info.pod_uids:
                self.cache.remove(info)
            if isinstance(error, OSError):
                raise PrepareError(f"checkpoint ResourceClaim state: {error}") from error
            raise

    def _info_for(self, item: _Checked) -> ClaimInfo:
        metadata = item.claim.metadata
        info = self.cache.get(metadata.namespace, metadata.name)
        if info is None:
            info = ClaimInfo(metadata.namespace, metadata.name, metadata.uid, drivers=dict(item.drivers))
            self.cache.add(info)
        elif info.uid != metadata.uid:
            # The earlier claim of this name is still prepared for its pods. Preparing the new one would overwrite their
            # record.
            raise PrepareError(
                f"old ResourceClaim with same name {metadata.name} and different UID {info.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        return info

    async def _call(
        self,
        method: str,
        call: Callable[[Sequence[ClaimReference]], Awaitable[Mapping[str, R]]],
        infos: Sequence[ClaimInfo],
    ) -> Mapping[str, R]:
        """Call one driver for several claims, with the checks that prepare and unprepare share."""
        try:
            answers = await call([info.reference for info in infos])
        except PluginCallError as error:
            raise ClaimError(f"{method}: {error}") from error
        asked = {info.uid: info for info in infos}
        for uid, answer in answers.items():
            if uid not in asked:
                raise ClaimError(f"{method} returned result for unknown claim UID {uid}")
            error_text = answer.error if isinstance(answer, PrepareOutcome) else str(answer)
            if error_text:
                raise ClaimError(f"{method} failed for ResourceClaim {asked[uid].name}: {error_text[:_ERROR_LENGTH]}")
        # A missing answer is not a success: the driver may not have seen the claim at all.
        if len(answers) < len(infos):
            raise ClaimError(f"{method} skipped {len(infos) - len(answers)} ResourceClaims")
        return answers

    def _enter_devices(self, driver: str, infos: Sequence[ClaimInfo], answers: Mapping[str, PrepareOutcome]) -> None:
        for info in infos:
            # The claim may have been unprepared and forgotten meanwhile: then no claim owns this entry any more.
            state = info.drivers.get(driver, DriverState())
            info.drivers[driver] = DriverState(answers[info.uid].devices, state.skip)

    async def _finish(self, pod: Pod, names: Collection[str]) -> None:
        if not names:
            return
        for name in names:
            info = self.cache.get(pod.metadata.namespace, name)
            if info is not None:
                info.prepared = True
        try:
            await self._save()
        except OSError as error:
            raise PrepareError(f"checkpoint ResourceClaim state: {error}") from error
        self._count_claims()

    async def unprepare(self, pod_uid: str) -> None:
        """Unprepare all claims that the pod references. Nothing is read from the API.

        Raises:
            UnprepareError: a driver failed. The references stay until it succeeds.
        """
        if not self.cache.of_pod(pod_uid):
            return
        with self._metrics.operation("UnprepareResources"):
            try:
                await self._unprepare(pod_uid)
            except (ClaimError, PluginNotRegistered, OSError) as error:
                raise UnprepareError(f"unprepare dynamic resources: {error}") from error

    async def _unprepare(self, pod_uid: str) -> None:
        batches: dict[str, list[ClaimInfo]] = {}
        done: list[ClaimInfo] = []
        for info in self.cache.of_pod(pod_uid):
            # Other pods still use the claim: only the reference goes. The last one unprepares.
            if len(info.pod_uids) > 1:
                info.pod_uids.remove(pod_uid)
                continue
            # Before the calls: if one fails half way, a pod that shares the claim must prepare it again.
            info.prepared = False
            for driver, state in info.drivers.items():
                if state.skips_unprepare:
                    self._metrics.unprepare_skipped(driver)
                    continue
                batches.setdefault(driver, []).append(info)
            done.append(info)
        # On disk before the calls. After a crash the claims count as unprepared and are unprepared again, which drivers
        # accept.
        await self._save()
        for driver, infos in batches.items():
            client = self._registry.get(driver).client
            await self._call("NodeUnprepareResources", client.unprepare, infos)
        await self._forget(pod_uid, done)

    async def _forget(self, pod_uid: str, done: Sequence[ClaimInfo]) -> None:
        for info in done:
            if info.pod_uids == {pod_uid}:
                self.cache.remove(info)
            else:
                # Another pod began to share the claim during the calls; it is not prepared, so it will be again.
                info.pod_uids.discard(pod_uid)
        await self._save()
        self._count_claims()

    def cdi_devices(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """Return qualified CDI names for a container (see `cdi_devices`).

        Raises:
            ClaimError: a claim is not in the cache.
        """
        return cdi_devices(pod, container, self.cache, self._gates)

    async def reconcile(self, active_pods: Callable[[], Collection[str]], *, every: float = RECONCILE_SECONDS) -> None:
        """Unprepare claims of pods that no longer exist, every ``every`` seconds and after `look_again`, until
        cancelled.
        """
        while True:
            self._look_again.clear()
            for uid in sorted(self.cache.pod_uids() - set(active_pods())):
                try:
                    await self.unprepare(uid)
                except UnprepareError as error:
                    _LOG.warning("pod %s is gone and its claims are still held: %s", uid, error)
                except Exception:
                    # For example a full disk: the claims of the other pods are still handled.
                    _LOG.exception("pod %s is gone and its claims are still held", uid)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._look_again.wait()

    def look_again(self) -> None:
        """Retry unpreparing now: a driver has registered."""
        self._look_again.set()

    async def _save(self) -> None:
        await self._store.save(self.cache)

    def _count_claims(self) -> None:
        counts: dict[str, int] = {}
        for info in self.cache:
            for driver, state in info.drivers.items():
                if state.devices:
                    counts[driver] = counts.get(driver, 0) + 1
        in_use = sum(any(state.devices for state in info.drivers.values()) for info in self.cache)
        self._metrics.set_claims_in_use(in_use, counts)


# Claims of a pod, and the CDI devices of its containers (docs/spec/node.md §7.2 and §8).
#
# CDI devices come from the cache alone, so that containers can restart while driver and API server are away. The checks
# run before any driver is called and change nothing. Their texts are the kubelet's.


def container_claims(pod: Pod, container: Container, gates: FeatureGates) -> Iterator[tuple[EntryClaim, str]]:
    """Yield the claims that a container refers to, each with the request it names ("" for all of them), in order."""
    extended = pod.status.extended_resource_claim_status
    for claim in pod_claims(pod, gates):
        if claim.entry:
            for reference in container.resources.claims:
                if reference.name == claim.entry:
                    yield claim, reference.request
        elif extended is not None:
            for mapping in extended.request_mappings:
                # As in the kubelet, the container must still request the resource: the mapping alone gives no device.
                wanted = container.resources.requests.get(mapping.resource_name)
                if mapping.container_name == container.name and wanted is not None and wanted.nanos > 0:
                    yield claim, mapping.request_name


def claim_devices(info: ClaimInfo, request: str) -> Iterator[tuple[str, PluginDevice]]:
    """Return drivers and devices of a claim that serve ``request``; all of them if it is ""."""
    for driver, state in info.drivers.items():
        for device in state.devices:
            # A driver may leave the requests of a device out; it then serves all of them, as in the kubelet.
            if not request or not device.request_names or request in device.request_names:
                yield driver, device


def cdi_devices(pod: Pod, container: Container, cache: ClaimInfoCache, gates: FeatureGates) -> tuple[str, ...]:
    """Return qualified CDI names for a container, in order, each once.

    Raises:
        ClaimError: a claim that the container refers to is not in the cache.
    """
    names: list[str] = []
    for claim, request in container_claims(pod, container, gates):
        info = cache.get(pod.metadata.namespace, claim.name)
        if info is None:
            raise ClaimError(
                f"internal error: unable to get claim info for ResourceClaim {claim.name} "
                f"in namespace {pod.metadata.namespace}"
            )
        for _, device in claim_devices(info, request):
            names.extend(device.cdi_device_ids)
    # Two requests may share a device, and a runtime refuses a CDI name that is given twice.
    return tuple(dict.fromkeys(names))


def pod_claims(pod: Pod, gates: FeatureGates) -> Iterator[EntryClaim]:
    """Yield the claims of a pod, in order. The claim of its extended resources comes last and has the entry "".

    Raises:
        PrepareError: a claim has not been created yet, or an entry names neither claim nor template.
    """
    for entry in pod.spec.resource_claims:
        try:
            claim = entry_claim(pod, entry)
        except PodClaimError as error:
            raise PrepareError(str(error)) from error
        if claim is not None:
            yield claim
    extended = extended_claim_name(pod)
    if extended and gates["DRAExtendedResource"]:
        yield EntryClaim("", extended, generated=False)


def check_allowed(pod: Pod, claim: ResourceClaim, wanted: EntryClaim, gates: FeatureGates) -> None:
    """Check that ``pod`` may use ``claim``: owner, reservation, allocation, in this order.

    Raises:
        PrepareError: the pod may not use the claim, or not yet.
    """
    # Behind a closed gate the reservation of a group is no permission, although an older object may hold one.
    group = pod_group_name(pod) if gates["DRAWorkloadResourceClaims"] else ""
    if wanted.generated:
        try:
            check_owner(claim, pod, group)
        except NotOwner as error:
            raise PrepareError(str(error)) from error
    if not is_reserved_for_group_named(claim, pod, group):
        raise PrepareError(
            f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
            f"ResourceClaim {claim.metadata.name} ({claim.metadata.uid})"
        )
    if claim.status.allocation is None:
        raise PrepareError(f"ResourceClaim {claim.metadata.name}: not allocated")


def driver_states(claim: ResourceClaim, gates: FeatureGates) -> dict[str, DriverState]:
    """Return the drivers of an allocated claim, none of which has prepared anything, with the operations each skips.

    A driver skips what all of its devices in the claim skip (docs/spec/node.md §12).

    Raises:
        PrepareError: an operation is to be skipped, and this node does not know how.
    """
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    skips: dict[str, frozenset[str]] = {}
    for result in results:
        known = _skipped(result.skip_node_operations)
        # One device that needs the driver is enough: the call is for the whole claim.
        skips[result.driver] = skips.get(result.driver, known) & known
    if any(skips.values()) and not gates["DRAOptionalNodeOperations"]:
        raise PrepareError("DRAOptionalNodeOperations feature gate is disabled on kubelet")
    return {driver: DriverState(skip=skip) for driver, skip in skips.items()}


def _skipped(operations: tuple[str, ...]) -> frozenset[str]:
    if "*" in operations:
        return frozenset({"NodePrepareResources", "NodeUnprepareResources"})
    return frozenset(operations) & {"NodePrepareResources", "NodeUnprepareResources"}
