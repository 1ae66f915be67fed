"""Invariants of a cluster, checked after every durable write and every step of a node (docs/reliability.md).

Each is a class with one sentence. An invariant that is broken raises `BrokenInvariant`. Those that hold only in the
end, when faults have ceased and the cluster had time, are checked by `Invariant.settled` and `Invariant.emptied`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.client.transport import APICall, WatchEvent
from cathedra.faultsim.advisorinvariants import AdvisorAgrees, AdvisorForgets, AdvisorWritesOnce
from cathedra.faultsim.invariant import CALM_SECONDS, LONG_CALM_SECONDS, Invariant
from cathedra.faultsim.network import ObservedWatch
from cathedra.faultsim.observation import (
    Chronicle,
    DeviceName,
    NodeView,
    RecordedWrite,
    allocated_devices,
    claim_names,
    ended,
)
from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.semantics.conditions import find_condition

_MOST_WRITES: Final = 200
"""Writes of one object in a minute."""
_BINDING_SECONDS: Final = 60.0
"""Time within which a scheduler that meets no fault binds all pods of a gang."""


class DevicesAreHeldOnce(Invariant):
    """A device that is not shared belongs to one claim at most."""

    sentence = "A device that claims do not share is allocated to one claim at most."

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(chronicle)
        self._holders: dict[DeviceName, tuple[str, str]] = {}
        self._held: dict[tuple[str, str], tuple[DeviceName, ...]] = {}

    def written(self, change: RecordedWrite) -> None:
        """Compare the devices of a claim with those of all others."""
        if change.plural != "resourceclaims":
            return
        for device in self._held.pop(change.name, ()):
            del self._holders[device]
        if change.new is None:
            return
        devices = tuple((one.driver, one.pool, one.device) for one in allocated_devices(change.new) if not one.share_id)
        for device in devices:
            if device in self._holders:
                raise self.broken(f"{'/'.join(device)} is held by {self._holders[device]} and {change.name}")
            self._holders[device] = change.name
        self._held[change.name] = devices


class CapacityIsNeverExceeded(Invariant):
    """Counters and shared capacities."""

    sentence = "Partitions never consume more of a counter than the GPU has, shares never more than its capacity."

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(chronicle)
        self._used: dict[tuple[str, str, str, str], Quantity] = {}
        self._uses: dict[tuple[str, str], list[tuple[tuple[str, str, str, str], Quantity]]] = {}
        self._limits: dict[tuple[str, str, str, str], Quantity] = {}
        self._consumption: dict[DeviceName, list[tuple[tuple[str, str, str, str], Quantity]]] = {}

    def written(self, change: RecordedWrite) -> None:
        """Take in slices, and add up what claims consume."""
        if change.plural == "resourceslices" and change.new is not None:
            self._publish(change.new)
        if change.plural != "resourceclaims":
            return
        for key, amount in self._uses.pop(change.name, ()):
            self._used[key] -= amount
        if change.new is None:
            return
        uses = self._uses[change.name] = list(self._consumed(change.new))
        for key, amount in uses:
            used = self._used[key] = self._used.get(key, Quantity(0)) + amount
            if key in self._limits and used > self._limits[key]:
                raise self.broken(f"{'/'.join(key)} has {self._limits[key]}, claims use {used}; last {change.name}")

    def _publish(self, published: Any) -> None:
        spec = published.spec
        for counters in spec.shared_counters:
            for name, counter in counters.counters.items():
                key = (spec.driver, spec.pool.name, counters.name, name)
                self._limits[key] = _number(counter.value)
        for device in spec.devices:
            consumption = [
                ((spec.driver, spec.pool.name, one.counter_set, name), _number(counter.value))
                for one in device.consumes_counters
                for name, counter in one.counters.items()
            ]
            if consumption:
                self._consumption[spec.driver, spec.pool.name, device.name] = consumption
            if device.allow_multiple_allocations:
                for name, capacity in device.capacity.items():
                    self._limits[spec.driver, spec.pool.name, device.name, str(name)] = _number(capacity.value)

    def _consumed(self, claim: ResourceClaim) -> Iterator[tuple[tuple[str, str, str, str], Quantity]]:
        for one in allocated_devices(claim):
            yield from self._consumption.get((one.driver, one.pool, one.device), ())
            for name, amount in (one.consumed_capacity or {}).items():
                yield (one.driver, one.pool, one.device, str(name)), _number(amount)


LOST_ALLOCATIONS: Final = "lost-allocations"
"""Name in the figures: allocations that a server has refused because another claim holds the devices."""


def lost_allocation(call: APICall, error: StatusError) -> bool:
    """Return True if a server has refused to allocate what another claim holds."""
    if call.ref.resource != "resourceclaims" or not error.is_conflict:
        return False
    return any(text in str(error) for text in ("is allocated to claim", "and claims would use"))


class LoneSchedulersFindFreeDevices(Invariant):
    """Refusals of the API server, behind which an error of a scheduler could hide."""

    sentence = "While there is no fault, no allocation of a scheduler that works alone is refused as taken."

    def refused(self, call: APICall, error: StatusError) -> None:
        """Look for a reason: another scheduler, or a write of a former life that was still on its way."""
        if not self.chronicle.rivals and self.chronicle.is_calm(CALM_SECONDS):
            raise self.broken(str(error))


class ContainersHaveTheirClaims(Invariant):
    """A container and its claims."""

    sentence = "A container starts only while all claims of its pod are allocated, reserved for the pod and prepared."

    def started(self, node: NodeView, container: ContainerSpec) -> None:
        """Look up each claim of the pod."""
        ref = container.pod
        pod = self.state.pods.get((ref.namespace, ref.name))
        if pod is None or pod.metadata.uid != ref.uid:
            # Deleted by force while the node was cut off: the API server knows nothing of what runs there.
            return
        uids = set()
        for name in claim_names(pod):
            claim = self.state.claims.get((ref.namespace, name))
            where = f"pod {ref.namespace}/{ref.name} on {node.name}"
            if claim is None:
                raise self.broken(f"{where} started without its claim {name}")
            if claim.status.allocation is None:
                raise self.broken(f"{where} started while its claim {name} is not allocated")
            if ref.uid not in {one.uid for one in claim.status.reserved_for} and not _of_group(claim):
                raise self.broken(f"{where} started while its claim {name} is not reserved for it")
            uids.add(claim.metadata.uid)
            for driver in sorted({one.driver for one in claim.status.allocation.devices.results}):
                if (driver, claim.metadata.uid) not in node.prepared:
                    raise self.broken(f"{where} started before {driver} had prepared claim {name}")
        node.claims_of[ref.uid] = frozenset(uids)


class NothingIsUnpreparedInUse(Invariant):
    """Unprepared claims have no running containers."""

    sentence = "A driver never gets a call to unprepare a claim while a container of a pod with that claim runs."

    def unprepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Look for a running container that uses the claim."""
        for container in node.running.values():
            if claim in node.claims_of.get(container.pod.uid, ()):
                raise self.broken(f"{driver} on {node.name} unprepared claim {claim} while {container.pod.name} runs")


class PreparedDevicesDoNotOverlap(Invariant):
    """The devices of a node."""

    sentence = "A driver never has one unshared device ready for two claims."

    def prepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Compare with the other claims of the driver on the node."""
        mine = node.prepared[driver, claim]
        for (other_driver, other), devices in node.prepared.items():
            if other_driver == driver and other != claim and mine & devices:
                shared = sorted("/".join(device) for device in mine & devices)
                raise self.broken(f"{', '.join(shared)} on {node.name} is ready for claims {other} and {claim}")


class CheckpointsCoverPreparedClaims(Invariant):
    """The checkpoint of an agent."""

    sentence = "A claim is in the agent's checkpoint before a driver gets the call to prepare it."

    def preparing(self, node: NodeView, driver: str, claim: str, recorded: frozenset[str]) -> None:
        """Look the claim up in the checkpoint."""
        if claim not in recorded:
            raise self.broken(f"{driver} on {node.name} prepares claim {claim}, which is not in the checkpoint")


class AcknowledgedWritesSurvive(Invariant):
    """Writes that a client has got an answer for are in the store."""

    sentence = "A write that was acknowledged is durable."

    def acknowledged(self, call: APICall, result: Any) -> None:
        """Look up the revision of the result among the durable writes."""
        metadata = getattr(result, "metadata", None)
        version = getattr(metadata, "resource_version", "") or ""
        if call.subresource not in ("", "status") or not version.isdigit() or call.options.dry_run:
            return
        prefix = self.chronicle.prefix_of(call.ref.group, call.ref.resource)
        if prefix and int(version) not in self.state.before.get(prefix, {}):
            raise self.broken(f"{call.verb} of {call.ref.resource} {call.name} was acknowledged at {version}, not kept")


class WatchesAreComplete(Invariant):
    """Watches deliver each revision once and in order."""

    sentence = "A watch delivers each revision of its resource once, in order, without gaps."

    def watched(self, stream: ObservedWatch, event: WatchEvent[Any]) -> None:
        """Compare the revision with that of the event before it, and with the write before it."""
        if event.type.value == "BOOKMARK":
            return
        revision = int(event.object.metadata.resource_version)
        call = stream.call
        # The state that a watch without a revision begins with comes in any order.
        if not stream.last and event.type.value == "ADDED" and not call.selection.resource_version:
            return
        if revision <= stream.last:
            raise self.broken(f"{stream.part} saw {call.ref.resource} {revision} after {stream.last}")
        before = self.state.before.get(self.chronicle.prefix_of(call.ref.group, call.ref.resource), {}).get(revision)
        if before is None:
            raise self.broken(f"{stream.part} saw {call.ref.resource} at {revision}, which is not durable")
        selected = call.namespace or call.name or call.selection.label_selector or call.selection.field_selector
        if not selected and before > stream.last:
            raise self.broken(f"{stream.part} saw {call.ref.resource} {stream.last}, then {revision}, without {before}")
        stream.last = revision


class RevisionsGrow(Invariant):
    """Revisions of the store."""

    sentence = "Each durable write has a higher revision than all before it."

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(chronicle)
        self._last = 0

    def written(self, change: RecordedWrite) -> None:
        """Compare with the last."""
        if change.revision <= self._last:
            raise self.broken(f"revision {change.revision} of {change.plural} {change.name} follows {self._last}")
        self._last = change.revision


class PodsKeepTheirNode(Invariant):
    """The node and the end of a pod are final."""

    sentence = "A pod that is bound keeps its node, and one that has ended does not run again."

    def written(self, change: RecordedWrite) -> None:
        """Compare a pod with its last state."""
        if change.plural != "pods" or change.old is None or change.new is None:
            return
        old: Pod = change.old
        new: Pod = change.new
        if old.metadata.uid != new.metadata.uid:
            raise self.broken(f"pod {change.name} was replaced without a removal")
        if old.spec.node_name and old.spec.node_name != new.spec.node_name:
            raise self.broken(f"pod {change.name} moved from {old.spec.node_name} to {new.spec.node_name}")
        if ended(old) and not ended(new):
            raise self.broken(f"pod {change.name} was {old.status.phase} and is {new.status.phase}")


class QuotasHold(Invariant):
    """Claims stay within the quota of their namespace."""

    sentence = "A namespace never gets a claim more than its quota allows."

    def written(self, change: RecordedWrite) -> None:
        """Count the claims of the namespace."""
        if change.plural != "resourceclaims" or change.old is not None:
            return
        namespace = change.name[0]
        for (where, name), quota in self.state.quotas.items():
            hard = quota.spec.hard.get(QUOTA_RESOURCE) if where == namespace and quota.status.hard else None
            if hard is None or quota.status.hard.get(QUOTA_RESOURCE) != hard:
                continue
            count = sum(1 for key in self.state.claims if key[0] == namespace)
            if count > _number(hard).value():
                raise self.broken(f"{count} claims in {namespace}, quota {name} allows {hard}")


QUOTA_RESOURCE: Final = "count/resourceclaims.resource.k8s.io"


class GangsStartWhole(Invariant):
    """Minimum of a gang."""

    sentence = (
        "A gang whose pods were bound while there was no fault, and whose devices no rival took, is below its minimum "
        "for a minute at most."
    )

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(chronicle)
        self._calm: dict[tuple[str, str], bool] = {}
        """By gang: there was no fault when its first pod was bound, and no rival took its devices."""
        self._below: dict[tuple[str, str], float] = {}
        """Since when a gang has pods with a node, and too few of them."""

    def written(self, change: RecordedWrite) -> None:
        """Count the gang of a changed pod, and check the time of those below their minimum."""
        for pod in (change.old, change.new) if change.plural == "pods" else ():
            if pod is not None and pod.spec.scheduling_group is not None:
                self._count((change.name[0], pod.spec.scheduling_group.pod_group_name), change.at)
        for key, since in self._below.items():
            # A scheduler that dies, or a binding that is refused, may leave a part of a gang bound, as in Kubernetes.
            if not self._calm[key] or self.chronicle.calm_since(since) < change.at - since:
                self._calm[key] = False
            elif change.at - since > _BINDING_SECONDS:
                raise self.broken(self._text(key))

    def refused(self, call: APICall, error: StatusError) -> None:
        """Note the gang of a claim whose allocation is refused as taken: other members may be bound already."""
        claim = self.state.claims.get((call.namespace, call.name))
        for owner in () if claim is None else claim.metadata.owner_references:
            pod = self.state.pods.get((call.namespace, owner.name))
            group = None if pod is None else pod.spec.scheduling_group
            name = None if group is None else group.pod_group_name
            self._calm[call.namespace, name or owner.name] = False

    def _count(self, key: tuple[str, str], at: float) -> None:
        bound, wanted, _ = self._members(key)
        if bound:
            self._calm.setdefault(key, self.chronicle.is_calm(CALM_SECONDS))
        if 0 < bound < wanted:
            self._below.setdefault(key, at)
        else:
            self._below.pop(key, None)

    def _members(self, key: tuple[str, str]) -> tuple[int, int, int]:
        """Return the numbers of members with a node, of those that need one at least, and of all."""
        group = self.state.groups.get(key)
        gang = None if group is None else group.spec.scheduling_policy.gang
        members = [
            pod
            for (namespace, _), pod in self.state.pods.items()
            if namespace == key[0]
            and pod.spec.scheduling_group is not None
            and pod.spec.scheduling_group.pod_group_name == key[1]
        ]
        wanted = 0 if gang is None else min(gang.min_count, len(members))
        return sum(1 for pod in members if pod.spec.node_name), wanted, len(members)

    def _text(self, key: tuple[str, str]) -> str:
        bound, wanted, members = self._members(key)
        return f"{bound} of {members} members of gang {key} have a node, {wanted} are needed"

    def settled(self) -> None:
        """Check those that are below their minimum: with enough time they are wrong, if they met no fault."""
        for key in self._below:
            if self._calm[key]:
                raise self.broken(self._text(key))


class ReservationsNamePods(Invariant):
    """Consumers in ``reservedFor`` are pods that exist."""

    sentence = "A claim is reserved for pods that exist; when the cluster is at rest, for exactly those that use it."

    def written(self, change: RecordedWrite) -> None:
        """Look up each new entry among the pods that ever were."""
        if change.plural != "resourceclaims" or change.new is None:
            return
        claim: ResourceClaim = change.new
        known = set() if change.old is None else {one.uid for one in change.old.status.reserved_for}
        for entry in claim.status.reserved_for:
            if entry.uid in known or entry.resource != "pods":
                continue
            if self.state.pod_uids.get(entry.uid) != (change.name[0], entry.name):
                raise self.broken(f"claim {change.name} is reserved for pod {entry.name} {entry.uid}, which never was")

    def settled(self) -> None:
        """Compare the entries of each claim with the pods that use it."""
        users: dict[tuple[str, str], set[str]] = {}
        for (namespace, _), user in self.state.pods.items():
            if not ended(user) and user.spec.node_name:
                for name in claim_names(user):
                    users.setdefault((namespace, name), set()).add(user.metadata.uid)
        for key, claim in self.state.claims.items():
            entries = {one.uid for one in claim.status.reserved_for if one.resource == "pods"}
            for uid in sorted(entries - users.get(key, set())):
                consumer = self.state.pod_uids.get(uid, ("", "?"))
                pod = self.state.pods.get(consumer)
                if pod is None or pod.metadata.uid != uid or ended(pod):
                    raise self.broken(f"claim {key} is still reserved for pod {consumer[1]}, which has gone or ended")
            missing = users.get(key, set()) - entries
            if missing and not _of_group(claim):
                raise self.broken(f"claim {key} is not reserved for {sorted(missing)}, which uses it")


class FinishedClaimsAreFreed(Invariant):
    """Claims that no pod uses are deallocated."""

    sentence = (
        "A claim whose pods have all ended or gone is deallocated, and its devices are unprepared, within ten minutes "
        "without a fault."
    )

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(chronicle)
        self._finished: dict[tuple[str, str], float] = {}
        """Since when a claim is allocated and has no user."""
        self._left: dict[tuple[str, str], float] = {}
        """By node and UID of a claim: since when it is prepared and has no user."""

    def written(self, change: RecordedWrite) -> None:
        """Note claims that have lost their last user, and check the time of those that wait."""
        if change.plural == "resourceclaims":
            self._note(change.name, change.at)
        elif change.plural == "pods" and (change.new is None or ended(change.new)):
            for key in self.state.claims:
                if key[0] == change.name[0]:
                    self._note(key, change.at)
            self._note_prepared(change.at)
        for name, since in self._finished.items():
            if self.chronicle.calm_since(since) > LONG_CALM_SECONDS:
                raise self.broken(f"claim {name} has no users and is still allocated")
        for (node, uid), since in self._left.items():
            if self.chronicle.calm_since(since) > LONG_CALM_SECONDS:
                raise self.broken(f"claim {uid} has no users and is still prepared on {node}")

    def unprepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Forget a claim that the agent takes back; a call that fails is a fault of its own."""
        self._left.pop((node.name, claim), None)

    def _note(self, key: tuple[str, str], at: float) -> None:
        claim = self.state.claims.get(key)
        if claim is None or claim.status.allocation is None or self._is_kept(claim):
            self._finished.pop(key, None)
        else:
            self._finished.setdefault(key, at)

    def _note_prepared(self, at: float) -> None:
        used = {claim.metadata.uid for claim in self.state.claims.values() if self._is_kept(claim)}
        here = {(node.name, uid) for node in self.chronicle.nodes.values() for _, uid in node.prepared}
        self._left = {key: self._left.get(key, at) for key in sorted(here) if key[1] not in used}

    def _used(self, claim: ResourceClaim) -> bool:
        for entry in claim.status.reserved_for:
            pod = self.state.pods.get(self.state.pod_uids.get(entry.uid, ("", "")))
            if pod is not None and pod.metadata.uid == entry.uid and not ended(pod):
                return True
        return False

    def _is_kept(self, claim: ResourceClaim) -> bool:
        # Groups keep their claims as long as they exist.
        return _of_group(claim) or self._used(claim) or self._waits_for_gang(claim)

    def _waits_for_gang(self, claim: ResourceClaim) -> bool:
        """Return True if the pod of a claim waits for its gang. The scheduler has taken the reservation back and left
        the allocation, which it would change with the next attempt. A gang that has lost a pod gets none, as in
        Kubernetes."""
        members = (
            pod
            for (namespace, _), pod in self.state.pods.items()
            if namespace == claim.metadata.namespace and pod.spec.scheduling_group is not None
        )
        return any(
            claim.metadata.name in claim_names(pod) for pod in members if not pod.spec.node_name and not ended(pod)
        )

    def settled(self) -> None:
        """Look for allocated claims without users."""
        for key, claim in self.state.claims.items():
            if claim.status.allocation is not None and not claim.status.reserved_for and not self._is_kept(claim):
                raise self.broken(f"claim {key} has no users and is still allocated")

    def emptied(self) -> None:
        """Look for anything that is left."""
        for key, claim in self.state.claims.items():
            if claim.status.allocation is not None or claim.status.reserved_for:
                raise self.broken(f"claim {key} is still allocated or reserved after all pods were deleted")
        for node in self.chronicle.nodes.values():
            if node.prepared:
                raise self.broken(f"{node.name} still has prepared claims: {sorted(node.prepared)}")
            if node.running:
                raise self.broken(f"{node.name} still runs containers: {sorted(node.running)}")


class TemplateClaimsDieWithTheirPods(Invariant):
    """Claims that were made from templates."""

    sentence = "A claim that was made for a pod is deleted after the pod."

    def settled(self) -> None:
        """Look for claims of pods that are gone."""
        for key, claim in self.state.claims.items():
            for owner in claim.metadata.owner_references:
                pod = self.state.pods.get((key[0], owner.name))
                if owner.kind == "Pod" and (pod is None or pod.metadata.uid != owner.uid):
                    raise self.broken(f"claim {key} is left of pod {owner.name}, which has gone")

    def emptied(self) -> None:
        """As when settled: now no pod is left."""
        self.settled()


class JobsCountRight(Invariant):
    """Completions of a job."""

    sentence = "A job never counts more successes than it wants, and a complete job has counted exactly that number."

    def written(self, change: RecordedWrite) -> None:
        """Compare the numbers of a job."""
        if change.plural != "jobs" or change.new is None:
            return
        wanted, succeeded = change.new.spec.completions or 0, change.new.status.succeeded
        complete = find_condition(change.new.status.conditions, "Complete")
        is_complete = complete is not None and complete.status == "True"
        if succeeded > wanted or (is_complete and succeeded < wanted):
            raise self.broken(f"job {change.name} wants {wanted} successes and has {succeeded}")


class WritesPause(Invariant):
    """Writes of one object."""

    sentence = "No object is written more than 200 times in a minute: what is refused is tried again after a pause."

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(chronicle)
        self._minutes: dict[tuple[str, tuple[str, str]], tuple[float, int]] = {}
        """By object: since when its writes are counted, and their number."""

    def written(self, change: RecordedWrite) -> None:
        """Count the writes of an object, from the first one of a minute on."""
        key = change.plural, change.name
        since, count = self._minutes.get(key, (change.at, 0))
        if change.at - since > 60.0:
            since, count = change.at, 0
        if count == _MOST_WRITES:
            raise self.broken(f"{change.plural} {change.name} has been written {count} times since {since:.3f}")
        self._minutes[key] = since, count + 1


class PartsDoNotFail(Invariant):
    """Parts and their errors."""

    sentence = "No part ends by itself, whatever faults it meets."

    def ended(self, part: str, error: BaseException) -> None:
        """Report the end of a part: every end is wrong."""
        raise self.broken(f"{part} ended: {type(error).__name__}: {error}")


INVARIANTS: Final[tuple[type[Invariant], ...]] = (
    DevicesAreHeldOnce,
    CapacityIsNeverExceeded,
    LoneSchedulersFindFreeDevices,
    ContainersHaveTheirClaims,
    NothingIsUnpreparedInUse,
    PreparedDevicesDoNotOverlap,
    CheckpointsCoverPreparedClaims,
    FinishedClaimsAreFreed,
    TemplateClaimsDieWithTheirPods,
    ReservationsNamePods,
    AcknowledgedWritesSurvive,
    WatchesAreComplete,
    RevisionsGrow,
    PodsKeepTheirNode,
    QuotasHold,
    GangsStartWhole,
    AdvisorAgrees,
    AdvisorWritesOnce,
    AdvisorForgets,
    JobsCountRight,
    WritesPause,
    PartsDoNotFail,
)
"""Every invariant that is a class of its own. `Progress` of a run is checked by the run itself."""


def _of_group(claim: ResourceClaim) -> bool:
    return any(one.resource != "pods" for one in claim.status.reserved_for)


def _number(value: Quantity | str) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(value)
