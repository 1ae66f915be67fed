"""The disruption controller: computes how many pods of a budget may be evicted (docs/spec/controllers.md §11).

The eviction sub-resource of the API server consumes ``status.disruptionsAllowed``; only this controller restores it.

`StaleDisruptions` resets the condition DisruptionTarget of pods that were not deleted within two minutes. Components
that disrupt a pod write the condition first and delete the pod then. If no deletion follows, the condition would
mislead people, and the jobs that count failures.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from cathedra.api.core.apps_v1 import ReplicaSet
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import Condition, LabelSelector, OwnerReference
from cathedra.api.core.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetStatus
from cathedra.api.goquote import go_quote
from cathedra.api.selectors import from_label_selector
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.informer import Informer
from cathedra.client.objects import ObjectKey, key_of
from cathedra.client.resources import (
    DEPLOYMENTS,
    PODDISRUPTIONBUDGETS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    STATEFULSETS,
)
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.transport import PatchType
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.workloads.templates import resolve
from cathedra.semantics.conditions import find_condition, with_condition
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_ready, is_terminal

DELETION_TIMEOUT: Final = 120.0
"""Seconds for which an evicted pod counts as disrupted before its deletion is seen."""


class UnknownScale(Exception):
    """The number of expected pods cannot be determined."""


class _Expectation(msgspec.Struct, frozen=True):
    """Expected pods of a budget, and how many of them must be healthy."""

    pods: int
    healthy: int


class DisruptionController:
    """Keeps the status of every PodDisruptionBudget."""

    name = "disruption-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder("controllermanager")
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._stale = StaleDisruptions(context)
        self._budgets = context.informers.of(PODDISRUPTIONBUDGETS)
        self._pods = context.informers.of(PODS)
        self._deployments = context.informers.of(DEPLOYMENTS)
        self._scaled: dict[tuple[str, str], Informer[Any]] = {
            ("apps", "ReplicaSet"): context.informers.of(REPLICASETS),
            ("apps", "StatefulSet"): context.informers.of(STATEFULSETS),
            ("", "ReplicationController"): context.informers.of(REPLICATIONCONTROLLERS),
        }
        self._budgets.store.add_index(BY_NAMESPACE, by_namespace)
        self._pods.store.add_index(BY_NAMESPACE, by_namespace)
        self._budgets.add_handler(on_add=self._enqueue, on_update=lambda _, new: self._enqueue(new))
        self._pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        informers: tuple[Informer[Any], ...] = (self._budgets, self._pods, self._deployments)
        for informer in (*informers, *self._scaled.values()):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile))
            group.create_task(self._stale.run())

    def _enqueue(self, budget: PodDisruptionBudget) -> None:
        self._queue.add(key_of(budget))

    def _pod_changed(self, pod: Pod) -> None:
        # Every change of a pod comes through here; most clusters have no budgets.
        if not self._budgets.store.by_key:
            return
        budgets = [b for b in self._budgets.store.by_index(BY_NAMESPACE, pod.metadata.namespace) if _selects(b, pod)]
        for budget in budgets:
            self._enqueue(budget)
        if len(budgets) > 1:
            chosen = min(budget.metadata.name for budget in budgets)
            where = f"{go_quote(pod.metadata.namespace)}/{go_quote(pod.metadata.name)}"
            text = f"Pod {where} matches multiple PodDisruptionBudgets.  Chose {go_quote(chosen)} arbitrarily."
            self._recorder.record(pod, "Warning", "MultiplePodDisruptionBudgets", text)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        self._pod_changed(new)
        # The pod may have left a budget, which must count again without it.
        if old.metadata.labels != new.metadata.labels:
            self._pod_changed(old)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        budget = self._budgets.store.get(*key)
        if budget is None:
            return None
        pods = [pod for pod in self._pods.store.by_index(BY_NAMESPACE, key.namespace) if _selects(budget, pod)]
        if not pods:
            self._recorder.record(budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected = self._expected(budget, pods)
        except UnknownScale as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self._recorder.record(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            await self._write(budget, self._failed(budget, str(error)))
            return None
        if _needs_scale(budget) and any(controller_of(pod) is None for pod in pods):
            self._recorder.record(budget, "Warning", "UnmanagedPods", _unmanaged(budget))
        disrupted, again = self._still_disrupted(budget, pods)
        healthy = sum(
            pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted and is_ready(pod)
            for pod in pods
        )
        # Without expected pods nothing may be evicted: controllers may not have created them yet.
        allowed = max(0, healthy - expected.healthy) if expected.pods > 0 else 0
        reason = "SufficientPods" if allowed > 0 else "InsufficientPods"
        status = PodDisruptionBudgetStatus(
            observed_generation=budget.metadata.generation,
            disrupted_pods=disrupted,
            disruptions_allowed=allowed,
            current_healthy=healthy,
            desired_healthy=expected.healthy,
            expected_pods=expected.pods,
            conditions=self._conditions(budget, "True" if allowed > 0 else "False", reason, ""),
        )
        await self._write(budget, status)
        return again

    def _still_disrupted(
        self, budget: PodDisruptionBudget, pods: Iterable[Pod]
    ) -> tuple[dict[str, Time], float | None]:
        """Return the evicted pods whose deletion is still to be seen, by name, with the times of their eviction.

        The second value is the seconds until the first of them is given up; None if there are none.
        """
        now = self._clock.now()
        by_name = {pod.metadata.name: pod for pod in pods}
        found: dict[str, Time] = {}
        for name, since in budget.status.disrupted_pods.items():
            pod = by_name.get(name)
            # The eviction has had its effect. Keeping the entry would subtract the pod twice.
            if pod is None or pod.metadata.deletion_timestamp is not None:
                continue
            # Without the limit, an API server that died between eviction and deletion would block the budget for ever.
            if since.timestamp + DELETION_TIMEOUT > now:
                found[name] = since
                continue
            where = f"{budget.metadata.namespace}/{budget.metadata.name}"
            text = f"Pod was expected by PDB {where} to be deleted but it wasn't"
            self._recorder.record(pod, "Warning", "NotDeleted", text)
        ends = [since.timestamp + DELETION_TIMEOUT - now for since in found.values()]
        return found, min(ends, default=None)

    def _expected(self, budget: PodDisruptionBudget, pods: list[Pod]) -> _Expectation:
        spec = budget.spec
        if spec.max_unavailable is not None:
            total = self._scale_of(pods)
            lost = resolve(spec.max_unavailable, total, round_up=True, default=0)
            return _Expectation(total, max(0, total - lost))
        if isinstance(spec.min_available, str):
            total = self._scale_of(pods)
            return _Expectation(total, resolve(spec.min_available, total, round_up=True, default=0))
        return _Expectation(len(pods), spec.min_available if spec.min_available is not None else 1)

    def _scale_of(self, pods: Iterable[Pod]) -> int:
        """Return the sum of replicas of all controllers of ``pods``; pods without a controller do not count."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            # Pods without a controller do not count, as in Kubernetes; an event reports them.
            if owner is None or owner.uid in scales:
                continue
            scale = self._scale(pod.metadata.namespace, owner)
            if scale is None:
                raise UnknownScale(f'found no controllers for pod "{pod.metadata.name}"')
            uid, replicas = scale
            scales[uid] = replicas
        return sum(scales.values())

    def _scale(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        """Return the UID of the object that decides the number of pods, and that number; None if it is unknown."""
        group = owner.api_version.rpartition("/")[0]
        informer = self._scaled.get((group, owner.kind))
        found = informer.store.get(namespace, owner.name) if informer is not None else None
        # An object of the same name that was made later does not own the pod.
        if found is None or found.metadata.uid != owner.uid:
            return None
        # During a rollout a Deployment has two sets. Their sum would be more than it wants.
        if isinstance(found, ReplicaSet):
            above = controller_of(found)
            if above is not None and above.kind == "Deployment":
                deployment = self._deployments.store.get(namespace, above.name)
                if deployment is None or deployment.metadata.uid != above.uid:
                    return None
                return above.uid, 1 if deployment.spec.replicas is None else deployment.spec.replicas
        replicas = found.spec.replicas
        return owner.uid, 1 if replicas is None else replicas

    def _failed(self, budget: PodDisruptionBudget, message: str) -> PodDisruptionBudgetStatus:
        conditions = self._conditions(budget, "False", "SyncFailed", message)
        return replace(
            budget.status,
            disruptions_allowed=0,
            observed_generation=budget.metadata.generation,
            conditions=conditions,
        )

    def _conditions(self, budget: PodDisruptionBudget, status: str, reason: str, message: str) -> tuple[Condition, ...]:
        new = Condition(
            type="DisruptionAllowed",
            status=status,
            observed_generation=budget.metadata.generation,
            last_transition_time=Time(self._clock.now()),
            reason=reason,
            message=message,
        )
        return with_condition(budget.status.conditions, new)

    async def _write(self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> None:
        # Each write wakes this controller again: writing an equal status would never end.
        if status == budget.status:
            return
        budgets = self._client.resource(PODDISRUPTIONBUDGETS, budget.metadata.namespace)
        try:
            await budgets.update_status(replace(budget, status=status))
        except StatusError as error:
            if not error.is_not_found:
                raise


def _needs_scale(budget: PodDisruptionBudget) -> bool:
    """Return True if the budget is a share of the pods that controllers are to keep."""
    return budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str)


def _unmanaged(budget: PodDisruptionBudget) -> str:
    """Return the event text about pods without a controller, for which a percentage cannot be computed."""
    selector = budget.spec.selector or LabelSelector()
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.key},Operator:{one.operator},Values:[{' '.join(one.values)}],}},"
        for one in selector.match_expressions
    )
    shown = (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {shown}) were found to be unmanaged. As a result, the "
        "status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for "
        'these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return True if the budget covers ``pod`` of its namespace. An empty selector covers every pod, none covers no
    pod.
    """
    if budget.spec.selector is None:
        return False
    return bool(from_label_selector(budget.spec.selector).matches(pod.metadata.labels))


STALE_SECONDS: Final = 120.0
_BY_KUBELET: Final = "TerminationByKubelet"
"""A node agent may take arbitrarily long to end a pod; its condition stays."""
_LOG = logging.getLogger(__name__)


class StaleDisruptions:
    """Watches pods for the disruption controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._pods = context.informers.of(PODS)
        self._pods.add_handler(on_add=self._changed, on_update=self._updated)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await run_workers(self._queue, self._reconcile)

    def _updated(self, old: Pod, pod: Pod) -> None:
        # Identity suffices: the store keeps unchanged parts of an object.
        if old.status.conditions is not pod.status.conditions:
            self._changed(pod)

    def _changed(self, pod: Pod) -> None:
        if _since(pod) is not None:
            self._queue.add(key_of(pod))

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(*key)
        since = _since(pod) if pod is not None else None
        if pod is None or since is None:
            return None
        wait = since + STALE_SECONDS - self._clock.now()
        if wait > 0:
            return wait
        condition = {"type": "DisruptionTarget", "status": "False", "lastTransitionTime": str(Time(self._clock.now()))}
        # With the uid, the patch is a conflict if another pod has the name by now.
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.resource(PODS, key.namespace).patch(key.name, PatchType.STRATEGIC, patch, "status")
        except StatusError as refusal:
            if not refusal.is_not_found:
                raise
            _LOG.info("pod %s/%s is gone already", key.namespace, key.name)
        return None


def _since(pod: Pod) -> float | None:
    """Since when the pod, which is not being deleted, is about to be disrupted (epoch seconds); None if it is not."""
    condition = find_condition(pod.status.conditions, "DisruptionTarget")
    if condition is None or pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    if condition.status != "True" or condition.reason == _BY_KUBELET:
        return None
    return condition.last_transition_time.timestamp if condition.last_transition_time is not None else 0.0
