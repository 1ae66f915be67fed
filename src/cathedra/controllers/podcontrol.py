"""Pods of workload controllers: creation and deletion, adoption, and the order of deletion.

All workload controllers share it: events, creation in growing batches, records of own writes. Adoption follows
``pkg/controller/controller_ref_manager.go`` (ClaimPods); the order in which surplus pods are deleted follows
``pkg/controller/controller_utils.go`` (ActivePodsWithRanks, ActivePods). docs/spec/controllers.md §8.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.core_v1 import Pod, PodCondition, PodTemplateSpec
from cathedra.api.core.meta_v1 import KubeObject, LabelSelector, ObjectMeta, OwnerReference
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.selectors import SelectorError, from_label_selector
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace, to_dict
from cathedra.api.undecodable import rest_of
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.resources import PODS
from cathedra.client.store import Store
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.controllers.expectations import Expectations
from cathedra.remembering import IDENTITY, remembered
from cathedra.semantics.conditions import with_condition
from cathedra.semantics.owners import controller_of, controller_reference, controller_uid, same_owners
from cathedra.semantics.pods import is_ready, is_sidecar, ready_since

T = TypeVar("T")

BY_CONTROLLER: Final = "controller-uid"
"""Name of the index of pods (and other owned objects) by the UID of their controller."""
BEGUN_TOGETHER: Final = 16
"""Requests of a batch that are begun in one turn of the event loop: some 5 ms of work."""


def controlled_pods(pods: Store[Pod], uid: str) -> list[Pod]:
    """Return the pods that the object with that UID controls, by the index `BY_CONTROLLER`.

    Of a pod that cannot be decoded it is what can be read: taken for absent, it would be replaced again and again.
    """
    return [*pods.by_index(BY_CONTROLLER, uid), *controlled_undecodable(pods, uid)]


def controlled_undecodable(pods: Store[Pod], uid: str) -> Iterator[Pod]:
    """Yield the readable parts of pods that cannot be decoded and that the object with that UID controls."""
    for what in pods.undecodable.values():
        rest, _ = rest_of(Pod, what)
        if rest is not None and uid in controller_uid(rest):
            yield rest


def pod_from_template(template: PodTemplateSpec, owner: KubeObject) -> Pod:
    """Return a pod as the template has it, controlled by ``owner`` and named after it by the API server."""
    metadata = owner.metadata
    return Pod(
        metadata=ObjectMeta(
            generate_name=f"{metadata.name}-",
            namespace=metadata.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            finalizers=template.metadata.finalizers,
            owner_references=(controller_reference(owner),),
        ),
        spec=template.spec,
    )


def _is_namespace_terminating(error: StatusError) -> bool:
    return error.is_namespace_terminating


class PodEventTexts(msgspec.Struct, frozen=True):
    """Texts of events about pods; each may contain ``pod``, ``owner`` and ``error``."""

    created: str = "Created pod: {pod}"
    not_created: str = "Error creating: {error}"
    deleted: str = "Deleted pod: {pod}"
    not_deleted: str = "Error deleting: {error}"
    updated: str = "Updated pod: {pod}"
    not_updated: str = "Error updating: {error}"
    untold: Callable[[StatusError], bool] = _is_namespace_terminating
    """Failures to create that no event is written about."""


def without(finalizers: tuple[str, ...], finalizer: str) -> tuple[str, ...]:
    """Return the finalizers less one."""
    return tuple(name for name in finalizers if name != finalizer)


async def attempt_all(items: Sequence[T], attempt: Callable[[T], Coroutine[Any, Any, object]]) -> Sequence[object]:
    """Attempt something for all ``items`` at once. Return the results and exceptions in their order.

    A batch may have hundreds of items, and in one process a request is worked on by the event loop that makes it. A few
    are therefore begun in each turn of the loop.
    """
    tasks: list[asyncio.Task[object]] = []
    try:
        for start in range(0, len(items), BEGUN_TOGETHER):
            if start:
                await asyncio.sleep(0)
            tasks += [asyncio.ensure_future(attempt(item)) for item in items[start : start + BEGUN_TOGETHER]]
        return await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        raise


async def in_batches(
    items: Sequence[T], attempt: Callable[[T], Coroutine[Any, Any, object]]
) -> StatusError | ConnectionError | None:
    """Attempt something for all ``items``, in batches of 1, 2, 4 …, so that a full quota costs few requests.

    The first batch with a failure is the last one; that failure is answered.
    """
    done, batch = 0, 1
    while done < len(items):
        part = items[done : done + batch]
        results = await attempt_all(part, attempt)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, (StatusError, ConnectionError)):
                raise result
        failure = next((r for r in results if isinstance(r, (StatusError, ConnectionError))), None)
        # The rest of the pods would fail in the same way, for example by a full quota.
        if failure is not None:
            return failure
        done += len(part)
        batch *= 2
    return None


class PodControl:
    """Creates, deletes and adopts pods for one workload controller."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        expectations: Expectations[str],
        texts: PodEventTexts = PodEventTexts(),
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._expectations = expectations
        self._texts = texts

    async def create_all(self, owner: KubeObject, pods: Sequence[Pod]) -> StatusError | ConnectionError | None:
        """Create pods in growing batches; the first failure ends it.

        In a namespace that is going away nothing can be created, which is no failure.
        """

        async def create(pod: Pod) -> None:
            try:
                await self.create(owner, pod)
            except StatusError as error:
                if not error.is_namespace_terminating:
                    raise

        return await in_batches(pods, create)

    async def create(self, owner: KubeObject, pod: Pod) -> None:
        """Create one pod, and record an event about its outcome."""
        try:
            created = await self._client.resource(PODS, owner.metadata.namespace).create(pod)
        except StatusError as error:
            if not self._texts.untold(error):
                self._record(owner, "FailedCreate", self._texts.not_created, pod, error)
            raise
        except ConnectionError:
            # The pod may exist. Counting again before that is known would create one too many.
            self._expectations.doubt(owner.metadata.uid)
            raise
        # Recorded before the next reconciliation can run: until the informer shows the pod, it must not be created
        # again.
        self._expectations.expect(owner.metadata.uid, created)
        self._record(owner, "SuccessfulCreate", self._texts.created, created)

    async def delete(self, owner: KubeObject, pod: Pod) -> None:
        """Delete one pod, that very one."""
        try:
            gone = await self._client.resource(PODS, pod.metadata.namespace).delete(
                # With its UID: a pod of the same name that replaced it must live.
                pod.metadata.name,
                uid=pod.metadata.uid,
            )
        except StatusError as error:
            if error.is_not_found:
                return
            self._record(owner, "FailedDelete", self._texts.not_deleted, pod, error)
            raise
        self._expectations.expect(owner.metadata.uid, gone)
        self._record(owner, "SuccessfulDelete", self._texts.deleted, pod)

    async def update(self, owner: KubeObject, pod: Pod) -> None:
        """Write one pod as it is to be."""
        try:
            written = await self._client.resource(PODS, pod.metadata.namespace).update(pod)
        except StatusError as error:
            self._record(owner, "FailedUpdate", self._texts.not_updated, pod, error)
            raise
        self._expectations.expect(owner.metadata.uid, written)
        self._record(owner, "SuccessfulUpdate", self._texts.updated, pod)

    async def adopt(self, owner: KubeObject, pod: Pod, finalizer: str = "") -> None:
        """Make ``owner`` the controller of a pod that has none; ``finalizer`` is added to it, if there is one."""
        references = (*pod.metadata.owner_references, controller_reference(owner))
        await self._mark(owner, pod, references, (*without(pod.metadata.finalizers, finalizer), finalizer))

    async def release(self, owner: KubeObject, pod: Pod, finalizer: str = "") -> None:
        """Give up a pod that is not selected any longer; ``finalizer`` is taken off it, if there is one."""
        references = tuple(known for known in pod.metadata.owner_references if known.uid != owner.metadata.uid)
        await self._mark(owner, pod, references, without(pod.metadata.finalizers, finalizer))

    async def _mark(
        self, owner: KubeObject, pod: Pod, references: tuple[OwnerReference, ...], finalizers: tuple[str, ...]
    ) -> None:
        body: list[JSONObject] = [
            {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
            {"op": "add", "path": "/metadata/ownerReferences", "value": [to_dict(known) for known in references]},
            {"op": "add", "path": "/metadata/finalizers", "value": [name for name in finalizers if name]},
        ]
        pods = self._client.resource(PODS, pod.metadata.namespace)
        try:
            marked = await pods.patch(pod.metadata.name, PatchType.JSON, body)
        except StatusError as error:
            if error.is_not_found:
                return
            raise
        self._expectations.expect(owner.metadata.uid, marked)

    def _record(self, owner: KubeObject, reason: str, text: str, pod: Pod, error: Exception | None = None) -> None:
        message = text.format(pod=pod.metadata.name, owner=owner.metadata.name, error=error)
        self._recorder.record(owner, "Normal" if error is None else "Warning", reason, message)


ORPHANS: Final = "orphan-pods"
"""Name of the index of pods without a controller: by their namespace, and by each of their labels in it."""


def orphan_places(pod: Pod) -> tuple[str, ...]:
    """Index function of `ORPHANS`."""
    metadata = pod.metadata
    if controller_of(pod) is not None:
        return ()
    return metadata.namespace, *(_place(metadata.namespace, *label) for label in metadata.labels.items())


def same_orphan_places(old: Pod, new: Pod) -> bool:
    """Return True if `orphan_places` returns the same for two states of a pod."""
    return same_owners(old, new) and old.metadata.labels == new.metadata.labels


def _place(namespace: str, key: str, value: str) -> str:
    return f"{namespace}/{key}={value}"


def _orphans(pods: Store[Pod], namespace: str, selector: LabelSelector) -> Sequence[Pod]:
    """Return the pods without a controller among which are all that the selector matches."""
    # By one of the labels that they must have: a namespace may have thousands of pods without a controller, and a
    # workload looks for them whenever one of its own changes.
    for label in selector.match_labels.items():
        return pods.by_index(ORPHANS, _place(namespace, *label))
    return pods.by_index(ORPHANS, namespace)


_compiled = remembered("selectors of workloads", size=4096, key=IDENTITY)(from_label_selector)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return True if a workload's selector matches; an invalid or empty one matches nothing."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    return _selects(selector, labels)


# A workload's selector is matched with each of its pods whenever one of them changes. For a deployment of a thousand
# pods, matching them anew took a fifth of the time in which they came up.
@remembered("pods that workloads select", size=16_384, key=IDENTITY)
def _selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return selects_labels(selector, labels)


def selects_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return the result of `selects`, without a memo: for labels that are made for the call."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    try:
        return _compiled(selector).matches(labels)
    except SelectorError:
        return False


@dataclass(frozen=True, slots=True)
class PodControllerRefManager:
    """Adopts and releases the pods of one owner, in the name of Kubernetes' type for it (controller_ref_manager.go)."""

    control: PodControl
    pods: Store[Pod]
    owner: KubeObject
    selector: LabelSelector | None
    could_own: Callable[[Pod], bool] | None = None
    """A pod of which it returns False is treated as not selected."""
    finalizer: str = ""
    """It is added to a pod with its adoption, and removed with its release."""

    async def claim(self) -> None:
        """Adopt the selected pods that no other object controls, then release those that are not selected."""
        await self.adopt()
        await self.release()

    async def adopt(self) -> None:
        """Adopt the selected pods that no other object controls."""
        if self.selector is None:
            return
        for pod in _orphans(self.pods, self.owner.metadata.namespace, self.selector):
            if (
                pod.metadata.deletion_timestamp is None
                and selects(self.selector, pod.metadata.labels)
                and (self.could_own is None or self.could_own(pod))
            ):
                await self.control.adopt(self.owner, pod, self.finalizer)

    async def release(self) -> None:
        """Release the owner's pods that are not selected."""
        own = self.pods.by_index(BY_CONTROLLER, self.owner.metadata.uid)
        for pod in _unselected(own, self.selector, self.could_own):
            await self.control.release(self.owner, pod, self.finalizer)


def _unselected(
    pods: Iterable[Pod], selector: LabelSelector | None, could_own: Callable[[Pod], bool] | None
) -> Sequence[Pod]:
    """Return the pods that are not selected, or of which ``could_own`` returns False."""
    matching: list[Mapping[str, str]] = []
    found: list[Pod] = []
    for pod in pods:
        labels = pod.metadata.labels
        # Fast path: pods of one template have equal labels beside those of a few zones. Comparing them costs a tenth of
        # matching them, and a workload tests all of its pods whenever one of them changes.
        known = labels in matching
        if not known and selects(selector, labels):
            known = True
            if len(matching) < _LABELS:
                matching.append(labels)
        if not known or (could_own is not None and not could_own(pod)):
            found.append(pod)
    return found


_LABELS: Final = 8
"""Labels that are compared with those of each pod."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def surplus_first(pods: Iterable[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """Return active pods in the order in which replica sets give them up.

    Unscheduled before scheduled, Pending before Running, not ready before ready, cheap before dear, pods that share
    their node with many of the active ``related`` ones before lonely ones, young before old. Pods of about the same
    age (within a factor of two) are taken by their UIDs, so that not all the young ones go.
    """
    crowd: dict[str, int] = {}
    for pod in related:
        crowd[pod.spec.node_name] = crowd.get(pod.spec.node_name, 0) + 1

    def compare(one: Pod, other: Pod) -> int:
        ours = (*_progress(one), _deletion_cost(one), -crowd.get(one.spec.node_name, 0))
        theirs = (*_progress(other), _deletion_cost(other), -crowd.get(other.spec.node_name, 0))
        if ours != theirs:
            return -1 if ours < theirs else 1
        for moments in ((ready_since(one), ready_since(other)), (_created(one), _created(other))):
            age = _by_age(*moments, now)
            if age is not None:
                return age or (-1 if one.metadata.uid < other.metadata.uid else 1)
            if _restarts(one) != _restarts(other):
                return -1 if _restarts(one) > _restarts(other) else 1
        return 0

    return sorted(pods, key=cmp_to_key(compare))


def least_done_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return active pods in the order in which jobs give them up: those that have come least far, then the youngest."""

    def rank(pod: Pod) -> tuple[tuple[bool, int, bool], float, tuple[int, int], float]:
        regular, sidecars = _restarts(pod)
        return _progress(pod), -(ready_since(pod) or math.inf), (-regular, -sidecars), -_created(pod)

    return sorted(pods, key=rank)


def _progress(pod: Pod) -> tuple[bool, int, bool]:
    phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0)
    return bool(pod.spec.node_name), phase, is_ready(pod)


def _created(pod: Pod) -> float:
    return (pod.metadata.creation_timestamp or Time(0)).timestamp


def _by_age(one: float | None, other: float | None, now: float) -> int | None:
    """-1 if the first moment is younger, 1 if it is older, 0 if they are about the same; None if they are equal."""
    if one is None or other is None or one == other:
        return None
    if not one or not other:
        return -1 if not one else 1
    buckets = [math.trunc(math.log2((now - moment) * 1e9)) if now > moment else -1 for moment in (one, other)]
    return (buckets[0] > buckets[1]) - (buckets[0] < buckets[1])


def _restarts(pod: Pod) -> tuple[int, int]:
    """Return the most restarts of a container, and the most of a sidecar."""
    sidecars = {container.name for container in pod.spec.init_containers if is_sidecar(container)}
    regular = max((status.restart_count for status in pod.status.container_statuses), default=0)
    return regular, max(
        (status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars), default=0
    )


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


async def evict(client: Client, clock: Clock, pod: Pod, reason: str, message: str) -> bool:
    """Set condition DisruptionTarget and delete the very pod with its own grace period.

    Answers whether it was there and not being deleted already.
    """
    pods = client.resource(PODS, pod.metadata.namespace)
    try:
        fresh = await pods.get(pod.metadata.name)
        if fresh.metadata.uid != pod.metadata.uid or fresh.metadata.deletion_timestamp is not None:
            return False
        disrupted = PodCondition(
            type="DisruptionTarget",
            status="True",
            last_transition_time=Time(clock.now()),
            reason=reason,
            message=message,
        )
        conditions = with_condition(fresh.status.conditions, disrupted)
        await pods.update_status(replace(fresh, status=replace(fresh.status, conditions=conditions)))
        await pods.delete(pod.metadata.name, uid=pod.metadata.uid)
    except StatusError as error:
        if error.is_not_found:
            return False
        raise
    return True
