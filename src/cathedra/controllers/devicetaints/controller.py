"""The device taint eviction controller, and the status of taint rules (docs/spec/controllers.md §3)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.status import StatusError
from cathedra.api.struct import Time
from cathedra.client.informer import Informer
from cathedra.client.mergedslices import MergedSliceInformer
from cathedra.client.resources import DEVICETAINTRULES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.devicetaints.taints import (
    BY_DEVICE,
    DeviceTaints,
    EvictionTime,
    by_device,
    claim_eviction_time,
    device_key,
    earliest,
    results_of,
    rule_selects,
    same_allocation,
    tainted_devices,
)
from cathedra.controllers.podcontrol import evict
from cathedra.releases import behaviours
from cathedra.semantics import podclaims
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.pods import is_terminal

NAME: Final = "device-taint-eviction-controller"
WORKERS: Final = 8
STATUS_PERIOD: Final = 10.0
"""Seconds between two statuses of a rule whose spec has not changed."""
_REMEMBERED: Final = 500


class TaintKey(NamedTuple):
    """A pod, or a rule."""

    kind: Literal["pod", "rule"]
    namespace: str
    name: str


class DeviceTaintEvictionController:
    """Evicts pods from bad devices."""

    name = NAME

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client.as_manager(NAME)
        self._clock = context.clock
        self._workloads = context.enabled("GenericWorkload") and context.enabled("DRAWorkloadResourceClaims")
        self._evicts_extended = context.gates.has(behaviours.EXTENDED_CLAIMS_EVICTED)
        self._every_effect = context.gates.has(behaviours.EVERY_TAINT_EFFECT_EVICTS)
        self._recorder = context.recorder(NAME)
        self._queue: WorkQueue[TaintKey] = context.queue()
        informers = context.informers
        self._pods = informers.of(PODS)
        self._claims = informers.of(RESOURCECLAIMS)
        self._slices: Informer[ResourceSlice] | MergedSliceInformer = informers.of(RESOURCESLICES)
        if context.gates.merged_taint_rules:
            self._slices = MergedSliceInformer(informers, self._recorder, context.gates)
        self._rules: Informer[Any] | None = None
        if context.enabled("DRADeviceTaintRules"):
            self._rules = informers.of(DEVICETAINTRULES)
        # Created before the handlers: the first events already read it.
        self._taints = DeviceTaints(self._slices.store, self._rules)
        self._scheduled: dict[TaintKey, EvictionTime] = {}
        """Pods with an eviction ahead."""
        self._evicted: OrderedDict[str, None] = OrderedDict()
        self._evictions_by_rule: dict[str, int] = {}
        self._told: dict[str, tuple[int, float]] = {}
        """Rule uid → generation and time (monotonic) of its last status."""
        self._pods.store.add_index(podclaims.BY_CLAIM, podclaims.by_claim, podclaims.names_same_claims)
        self._claims.store.add_index(BY_DEVICE, by_device, same_allocation)
        self._listen()

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        for informer in (self._pods, self._claims, self._slices, self._rules):
            if informer is not None:
                await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=WORKERS))

    # What is enqueued.

    def _listen(self) -> None:
        self._pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_deleted)
        self._claims.add_handler(
            on_add=self._claim_changed, on_update=self._claim_updated, on_delete=self._claim_changed
        )
        self._slices.add_handler(
            on_add=lambda new: self._slice_changed(None, new),
            on_update=self._slice_changed,
            on_delete=lambda old: self._slice_changed(old, None),
        )
        if self._rules is not None:
            self._rules.add_handler(
                on_add=self._rule_changed, on_update=self._rule_updated, on_delete=self._rule_deleted
            )

    def _pod_changed(self, pod: Pod) -> None:
        if not pod.spec.node_name or not podclaims.has_claims(pod):
            return
        key = _pod_key(pod)
        # At the first taint the affected claims are found by their devices.
        if self._taints.are_any or key in self._scheduled:
            self._queue.add(key)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        leaving = old.metadata.deletion_timestamp is None and pod.metadata.deletion_timestamp is not None
        if (
            leaving
            or old.spec.node_name != pod.spec.node_name
            or old.status.resource_claim_statuses != pod.status.resource_claim_statuses
            or old.status.extended_resource_claim_status != pod.status.extended_resource_claim_status
        ):
            self._pod_changed(pod)

    def _pod_deleted(self, pod: Pod) -> None:
        eviction = self._scheduled.pop(_pod_key(pod), None)
        if eviction is not None:
            self._refresh_rules(eviction)

    def _claim_changed(self, claim: ResourceClaim) -> None:
        for pod in self._users(claim):
            self._pod_changed(pod)

    def _claim_updated(self, old: ResourceClaim, claim: ResourceClaim) -> None:
        if old.status.allocation != claim.status.allocation or old.status.reserved_for != claim.status.reserved_for:
            self._claim_changed(claim)

    def _users(self, claim: ResourceClaim) -> Iterable[Pod]:
        value = f"{claim.metadata.namespace}/{claim.metadata.name}"
        return self._pods.store.by_index(podclaims.BY_CLAIM, value)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        before = tainted_devices(old) if old is not None else {}
        after = tainted_devices(new) if new is not None else {}
        if new is not None:
            self._taints.enter(new)
        elif old is not None:
            self._taints.remove(old)
        slice_ = new or old
        if slice_ is None:
            return
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if old is None or new is None or old.spec.pool.generation != new.spec.pool.generation:
            # Another generation may have become the newest one, and only the taints of the newest one count.
            for other in (*self._taints.newest(slice_.spec.driver, slice_.spec.pool.name), slice_):
                changed |= tainted_devices(other).keys()
        for device in changed:
            key = device_key(slice_.spec.driver, slice_.spec.pool.name, device)
            for claim in self._claims.store.by_index(BY_DEVICE, key):
                self._claim_changed(claim)

    def _rule_changed(self, rule: DeviceTaintRule) -> None:
        # The pods follow when the status is written: it is to show them as pending first.
        self._queue.add(TaintKey("rule", "", rule.metadata.name))

    def _rule_updated(self, old: DeviceTaintRule, rule: DeviceTaintRule) -> None:
        if old.spec != rule.spec:
            self._rule_changed(rule)

    def _rule_deleted(self, rule: DeviceTaintRule) -> None:
        self._told.pop(rule.metadata.uid, None)
        self._evictions_by_rule.pop(rule.metadata.uid, None)
        self._reconsider_selected(rule)
        for key in tuple(self._scheduled):
            self._queue.add(key)

    def _reconsider_selected(self, rule: DeviceTaintRule) -> None:
        for claim in self._selected_claims(rule):
            self._claim_changed(claim)

    def _selected_claims(self, rule: DeviceTaintRule) -> Iterator[ResourceClaim]:
        for claim in self._claims.store.list():
            if any(rule_selects(rule, r.driver, r.pool, r.device) for r in results_of(claim)):
                yield claim

    # What is done.

    async def _reconcile(self, key: TaintKey) -> float | None:
        if key.kind == "rule":
            return await self._sync_rule(key)
        pod = self._pods.store.get(key.namespace, key.name)
        if pod is None or pod.metadata.deletion_timestamp is not None or pod.metadata.uid in self._evicted:
            self._unschedule(key)
            return None
        eviction = self._verdict(pod)
        if eviction is None:
            if self._unschedule(key):
                self._recorder.record(pod, "Normal", "DeviceTaintManagerEviction", "Cancelling deletion")
            return None
        wait = eviction.due - self._clock.now()
        # Compared with the last verdict, so that an unchanged one does not refresh the rules' status again.
        if self._scheduled.get(key) != eviction:
            self._scheduled[key] = eviction
            self._refresh_rules(eviction)
        if wait > 0:
            return wait
        await self._evict(pod, eviction)
        return None

    def _unschedule(self, key: TaintKey) -> bool:
        eviction = self._scheduled.pop(key, None)
        if eviction is None:
            return False
        self._refresh_rules(eviction)
        return True

    def _verdict(self, pod: Pod) -> EvictionTime | None:
        if not pod.spec.node_name or is_terminal(pod):
            return None
        return earliest(self._claim_verdicts(pod))

    def _claim_verdicts(self, pod: Pod) -> Iterator[EvictionTime]:
        for claim in self._held_claims(pod):
            eviction = claim_eviction_time(claim, self._taints, every_effect=self._every_effect)
            if eviction is not None:
                yield eviction

    def _held_claims(self, pod: Pod) -> Iterator[ResourceClaim]:
        """Yield the claims that a pod may really use: reserved for it or its group, and made for it if generated."""
        group = podclaims.pod_group_name(pod) if self._workloads else ""
        generated = {status.resource_claim_name for status in pod.status.resource_claim_statuses}
        extended = "" if self._evicts_extended else podclaims.extended_claim_name(pod)
        for name in podclaims.claim_names(pod):
            if name == extended:
                continue
            claim = self._claims.store.get(pod.metadata.namespace, name)
            if claim is None or not podclaims.is_reserved_for_group_named(claim, pod, group):
                continue
            if name in generated and not podclaims.is_made_for(claim, pod, group):
                continue
            yield claim

    async def _evict(self, pod: Pod, eviction: EvictionTime) -> None:
        self._recorder.record(pod, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
        message = "Device Taint manager: deleting due to NoExecute taint"
        if await evict(self._client, self._clock, pod, "DeletionByDeviceTaintManager", message):
            self._evicted[pod.metadata.uid] = None
            # Bounded: a forgotten pod would be evicted a second time at worst, which its deletion already does.
            if len(self._evicted) > _REMEMBERED:
                self._evicted.popitem(last=False)
            for uid in {reason.rule_uid for reason in eviction.reasons if reason.rule}:
                self._evictions_by_rule[uid] = self._evictions_by_rule.get(uid, 0) + 1
        # The pod stays scheduled until its deletion is seen, which updates the rules' status.
        self._refresh_rules(eviction)

    # Rules.

    def _refresh_rules(self, eviction: EvictionTime) -> None:
        for reason in eviction.reasons:
            if reason.rule:
                _, told = self._told.get(reason.rule_uid, (0, 0.0))
                wait = told + STATUS_PERIOD - self._clock.monotonic()
                self._queue.add_after(TaintKey("rule", "", reason.rule), max(wait, 0.0))

    async def _sync_rule(self, key: TaintKey) -> float | None:
        rule = self._rules.store.get("", key.name) if self._rules is not None else None
        if rule is None:
            return None
        generation, told = self._told.get(rule.metadata.uid, (-1, 0.0))
        fresh = generation != rule.metadata.generation
        wait = told + STATUS_PERIOD - self._clock.monotonic()
        if not fresh and rule.spec.taint.effect == "None":
            return None
        # Statuses of a rule are written at most once per period; thousands of evictions would otherwise mean as many
        # writes.
        if not fresh and wait > 0:
            return wait
        self._told[rule.metadata.uid] = (rule.metadata.generation, self._clock.monotonic())
        try:
            await self._write_status(rule, self._condition(rule))
        # Also after a failed write: the pods must not wait for the status of a rule.
        finally:
            if fresh:
                self._reconsider_selected(rule)
                for pod in tuple(self._scheduled):
                    self._queue.add(pod)
        return None

    def _condition(self, rule: DeviceTaintRule) -> RuleCondition:
        effect, evicted = rule.spec.taint.effect, self._evictions_by_rule.get(rule.metadata.uid, 0)
        if effect not in ("NoExecute", "None"):
            return progress(effect, 0, 0, evicted)
        pods = [pod for pod in self._selected_pods(rule) if effect == "None" or self._is_pending(pod, rule)]
        namespaces = len({pod.metadata.namespace for pod in pods})
        if effect == "NoExecute":
            return progress(effect, len(pods), namespaces, evicted)
        allocated = {
            device_key(result.driver, result.pool, result.device)
            for claim in self._claims.store
            for result in results_of(claim)
            if rule_selects(rule, result.driver, result.pool, result.device)
        }
        return dry_run(self._published(rule), len(allocated), len(pods), namespaces, evicted)

    def _published(self, rule: DeviceTaintRule) -> int:
        pools = {(slice_.spec.driver, slice_.spec.pool.name) for slice_ in self._slices.store}
        return sum(
            rule_selects(rule, driver, pool, device.name)
            for driver, pool in pools
            for slice_ in self._taints.newest(driver, pool)
            for device in slice_.spec.devices
        )

    def _selected_pods(self, rule: DeviceTaintRule) -> Iterator[Pod]:
        seen: set[str] = set()
        for claim in self._selected_claims(rule):
            for pod in self._users(claim):
                gone = pod.metadata.deletion_timestamp is not None or is_terminal(pod)
                if pod.metadata.uid in seen or gone or not pod.spec.node_name:
                    continue
                if claim in self._held_claims(pod):
                    seen.add(pod.metadata.uid)
                    yield pod

    def _is_pending(self, pod: Pod, rule: DeviceTaintRule) -> bool:
        eviction = self._verdict(pod)
        return eviction is not None and any(reason.rule_uid == rule.metadata.uid for reason in eviction.reasons)

    async def _write_status(self, rule: DeviceTaintRule, condition: RuleCondition) -> None:
        wanted = (condition.status, condition.reason, condition.message, rule.metadata.generation)
        old = find_condition(rule.status.conditions, "EvictionInProgress")
        if old is not None and wanted == (old.status, old.reason, old.message, old.observed_generation):
            return
        fields = {
            "metadata": {"uid": rule.metadata.uid},
            "status": {
                "conditions": [
                    {
                        "type": "EvictionInProgress",
                        "status": condition.status,
                        "reason": condition.reason,
                        "message": condition.message,
                        "observedGeneration": rule.metadata.generation,
                        "lastTransitionTime": str(Time(self._clock.now())),
                    }
                ]
            },
        }
        try:
            await self._client.resource(DEVICETAINTRULES).apply(rule.metadata.name, fields, "status")
        except StatusError as error:
            if not error.is_not_found:
                raise


def _pod_key(pod: Pod) -> TaintKey:
    return TaintKey("pod", pod.metadata.namespace, pod.metadata.name)


_FINAL = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


class RuleCondition(msgspec.Struct, frozen=True):
    """Status, reason and message of the condition EvictionInProgress."""

    status: str
    reason: str
    message: str


def progress(effect: str, pending: int, namespaces: int, evicted: int) -> RuleCondition:
    """Return the condition of a rule with its numbers of pending and evicted pods."""
    if effect != "NoExecute":
        return RuleCondition(
            "False", "OtherEffect", _joined("Eviction only happens for the NoExecute effect.", evicted)
        )
    if pending:
        verb = "needs" if pending == 1 else "need"
        message = f"{_count(pending, 'pod')} {verb} to be evicted in {_namespaces(namespaces)}."
        return RuleCondition("True", "PodsPendingEviction", _joined(message, evicted))
    return RuleCondition("False", "Completed" if evicted else "NotStarted", _joined("", evicted))


def dry_run(published: int, allocated: int, pods: int, namespaces: int, evicted: int) -> RuleCondition:
    """Return the condition of a rule without effect, with the evictions that it would cause."""
    message = (
        f"{_count(published, 'published device')} selected. {_count(allocated, 'allocated device')} selected. "
        f"{_count(pods, 'pod')} would be evicted in {_namespaces(namespaces)} if the effect was NoExecute. {_FINAL}"
    )
    return RuleCondition("False", "NoEffect", _joined(message, evicted))


def _joined(message: str, evicted: int) -> str:
    if not evicted:
        return message
    return f"{message} {_count(evicted, 'pod')} evicted since starting the controller.".strip()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"
