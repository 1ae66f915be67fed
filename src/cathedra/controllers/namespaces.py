"""Controllers of namespaces. One deletes the contents of a terminating namespace, then removes its finalizer; the
others maintain the default objects of each active one.

Pods are deleted first, because they may need other objects until they have ended. The namespace's conditions show what
remains, and the reason (docs/spec/controllers.md §6).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import ConfigMap, Namespace, NamespaceCondition, Pod, ServiceAccount
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.resources import CONFIGMAPS, EVENTS, NAMESPACES, PODS, SERVICEACCOUNTS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.customkinds import CustomKinds
from cathedra.semantics.conditions import with_condition
from cathedra.semantics.pods import is_terminal

FINALIZER: Final = "kubernetes"
WORKERS: Final = 10
GRACE_PERIOD: Final = 5.0
"""Seconds after its deletion in which a namespace is left alone, so that every writer has seen it."""
RETRY_PERIOD: Final = 5.0
FINALIZER_SECONDS: Final = 15.0
"""Seconds in which objects with finalizers are expected to go."""


class _Remains(msgspec.Struct):
    """Contents of a namespace that an attempt to empty it left."""

    instances: dict[str, int] = msgspec.field(default_factory=dict)
    """``resource.group`` → how many."""
    finalizers: dict[str, int] = msgspec.field(default_factory=dict)
    errors: list[str] = msgspec.field(default_factory=list)
    expected: float = 0.0
    """Seconds after which the rest should be gone."""

    def add(self, ref: ResourceRef[KubeObject], objects: tuple[KubeObject, ...]) -> None:
        """Count the remaining objects of a resource."""
        self.instances[f"{ref.resource}.{ref.group}"] = len(objects)
        for obj in objects:
            for finalizer in obj.metadata.finalizers:
                self.finalizers[finalizer] = self.finalizers.get(finalizer, 0) + 1


class NamespaceController:
    """Deletes the objects of terminating namespaces, and then removes their finalizer."""

    name = "namespace-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._refs = sorted(
            # Pods first: they may need config maps, secrets and claims until they have ended.
            # Nothing is watched for events, but they go with their namespace: they would stay for an hour.
            (*(ref for ref in context.served if ref.namespaced), EVENTS),
            key=lambda ref: (ref.resource != "pods", ref.group),
        )
        self._custom = CustomKinds(context.informers, self._follow_kind)
        self._queue: WorkQueue[str] = context.queue()
        self._namespaces = context.informers.of(NAMESPACES)
        self._namespaces.add_handler(on_add=self._changed, on_update=lambda _, namespace: self._changed(namespace))
        self._pods = context.informers.of(PODS)
        self._pods.store.add_index(BY_NAMESPACE, by_namespace)
        self._pods.add_handler(on_delete=self._pod_deleted)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._custom.wait_synced()
        await self._namespaces.wait_synced()
        await self._pods.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=WORKERS)

    def _follow_kind(self, ref: ResourceRef[KubeObject]) -> None:
        if ref.namespaced:
            self._refs.append(ref)

    def _changed(self, namespace: Namespace) -> None:
        if namespace.metadata.deletion_timestamp is not None:
            self._queue.add(namespace.metadata.name)

    def _pod_deleted(self, pod: Pod) -> None:
        """Enqueue a namespace that is being deleted when its last pod has gone, even if more time was expected."""
        namespace = self._namespaces.store.get("", pod.metadata.namespace)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return
        if not self._pods.store.by_index(BY_NAMESPACE, pod.metadata.namespace):
            self._queue.add(namespace.metadata.name)

    async def _reconcile(self, name: str) -> float | None:
        namespace = self._namespaces.store.get("", name)
        if namespace is None or namespace.metadata.deletion_timestamp is None or not namespace.spec.finalizers:
            return None
        age = self._clock.now() - namespace.metadata.deletion_timestamp.timestamp
        # Other API servers and controllers may not have seen the deletion yet and still create objects, which would be
        # missed.
        if age < GRACE_PERIOD:
            return GRACE_PERIOD - age
        if namespace.status.phase != "Terminating":
            status = replace(namespace.status, phase="Terminating")
            namespace = await self._client.resource(NAMESPACES).update_status(replace(namespace, status=status))
        remains = await self._empty(name, age)
        namespace = await self._write_conditions(namespace, remains)
        if remains.errors:
            return RETRY_PERIOD
        if remains.instances:
            # Half of what is expected, as an end may come early.
            return remains.expected // 2 + 1
        await self._finalize(namespace)
        return None

    async def _empty(self, namespace: str, age: float) -> _Remains:
        remains = _Remains()
        for ref in tuple(self._refs):
            # Everything else stays until the last pod has ended.
            if ref.resource != "pods" and "pods." in remains.instances:
                break
            try:
                await self._empty_resource(ref, namespace, age, remains)
            except StatusError as error:
                if error.is_not_found:
                    # The kind itself is gone, and its objects with it.
                    continue
                remains.errors.append(str(error))
        return remains

    async def _empty_resource(
        self, ref: ResourceRef[KubeObject], namespace: str, age: float, remains: _Remains
    ) -> None:
        resource = self._client.resource(ref, namespace)
        found = await resource.list(limit=1)
        if not found.items and not found.undecodable:
            return
        grace = (
            _longest_grace((await self._client.resource(PODS, namespace).list()).items) if ref.resource == "pods" else 0
        )
        await resource.delete_collection(propagation_policy="Background")
        page = await resource.list()
        left = page.items
        remains.errors.extend(map(str, page.undecodable))
        if not left:
            return
        remains.add(ref, left)
        if grace > age:
            remains.expected = max(remains.expected, float(grace))
        elif any(obj.metadata.finalizers for obj in left):
            remains.expected = max(remains.expected, FINALIZER_SECONDS)
        else:
            where = f"{ref.group}/{ref.version}, Resource={ref.resource}"
            remains.errors.append(f"unexpected items still remain in namespace: {namespace} for gvr: {where}")

    async def _write_conditions(self, namespace: Namespace, remains: _Remains) -> Namespace:
        conditions = namespace.status.conditions
        for condition in _conditions(remains, Time(self._clock.now())):
            conditions = with_condition(conditions, condition)
        if conditions == namespace.status.conditions:
            return namespace
        status = replace(namespace.status, conditions=conditions)
        return await self._client.resource(NAMESPACES).update_status(replace(namespace, status=status))

    async def _finalize(self, namespace: Namespace) -> None:
        rest = tuple(name for name in namespace.spec.finalizers if name != FINALIZER)
        finalized = replace(namespace, spec=replace(namespace.spec, finalizers=rest))
        try:
            await self._client.resource(NAMESPACES).update(finalized, subresource="finalize")
        except StatusError as error:
            if not error.is_not_found:
                raise


def _longest_grace(pods: Iterable[Pod]) -> int:
    """Return the longest grace period, in seconds, of the pods that have not ended; 0 if there are none."""
    return max((pod.spec.termination_grace_period_seconds or 0 for pod in pods if not is_terminal(pod)), default=0)


def _conditions(remains: _Remains, now: Time) -> tuple[NamespaceCondition, ...]:
    failed = ", ".join(sorted(remains.errors))
    told = _Remains() if "pods." in remains.instances else remains
    # While pods exist nothing else was deleted, so the conditions about remaining contents are unknown.
    left = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(told.instances.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(told.finalizers.items()))

    def condition(kind: str, problem: str, reasons: tuple[str, str], fine: str) -> NamespaceCondition:
        return NamespaceCondition(
            type=kind,
            status="True" if problem else "False",
            last_transition_time=now,
            reason=reasons[0] if problem else reasons[1],
            message=problem or fine,
        )

    return (
        condition(
            "NamespaceDeletionDiscoveryFailure",
            "",
            ("DiscoveryFailed", "ResourcesDiscovered"),
            "All resources successfully discovered",
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            ("GroupVersionParsingFailed", "ParsedGroupVersions"),
            "All legacy kube types successfully parsed",
        ),
        condition(
            "NamespaceDeletionContentFailure",
            failed and f"Failed to delete all resource types, {len(remains.errors)} remaining: {failed}",
            ("ContentDeletionFailed", "ContentDeleted"),
            "All content successfully deleted, may be waiting on finalization",
        ),
        condition(
            "NamespaceContentRemaining",
            left and f"Some resources are remaining: {left}",
            ("SomeResourcesRemain", "ContentRemoved"),
            "All content successfully removed",
        ),
        condition(
            "NamespaceFinalizersRemaining",
            held and f"Some content in the namespace has finalizers remaining: {held}",
            ("SomeFinalizersRemain", "ContentHasNoFinalizers"),
            "All content-preserving finalizers finished",
        ),
    )


# Default objects of active namespaces: service account ``default`` and config map ``kube-root-ca.crt``.
#
# Both are created again when they are deleted, and the certificate is restored when it is changed
# (docs/spec/controllers.md §6).

SERVICE_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_CA_KEY: Final = "ca.crt"
_DESCRIPTION: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
}


class ServiceAccountController:
    """Gives every active namespace its service account ``default``."""

    name = "serviceaccount-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._queue: WorkQueue[str] = context.queue()
        self._accounts = context.informers.of(SERVICEACCOUNTS)
        self._namespaces = _follow_namespaces(context.informers, self._queue)
        self._accounts.add_handler(on_delete=lambda account: self._queue.add(account.metadata.namespace))

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._namespaces.wait_synced()
        await self._accounts.wait_synced()
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, namespace: str) -> None:
        if not _is_active(self._namespaces, namespace) or self._accounts.store.get(namespace, SERVICE_ACCOUNT):
            return
        account = ServiceAccount(metadata=ObjectMeta(name=SERVICE_ACCOUNT, namespace=namespace))
        try:
            await self._client.resource(SERVICEACCOUNTS, namespace).create(account)
        except StatusError as error:
            if not _is_settled(error):
                raise


class RootCAPublisher:
    """Publishes the certificate authority of the API server in every active namespace."""

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._data = {_CA_KEY: context.root_ca}
        self._queue: WorkQueue[str] = context.queue()
        self._maps = context.informers.of(CONFIGMAPS)
        self._namespaces = _follow_namespaces(context.informers, self._queue)
        self._maps.add_handler(on_update=lambda _, new: self._changed(new), on_delete=self._changed)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._namespaces.wait_synced()
        await self._maps.wait_synced()
        await run_workers(self._queue, self._reconcile)

    def _changed(self, obj: KubeObject) -> None:
        # The informer has all config maps; without the test each change of any would be a reconciliation.
        if obj.metadata.name == ROOT_CA:
            self._queue.add(obj.metadata.namespace)

    async def _reconcile(self, namespace: str) -> None:
        if not _is_active(self._namespaces, namespace):
            return
        maps = self._client.resource(CONFIGMAPS, namespace)
        existing = self._maps.store.get(namespace, ROOT_CA)
        try:
            if existing is None:
                metadata = ObjectMeta(name=ROOT_CA, namespace=namespace, annotations=_DESCRIPTION)
                await maps.create(ConfigMap(metadata=metadata, data=self._data))
            elif existing.data != self._data:
                await maps.update(replace(existing, data=self._data))
        except StatusError as error:
            if not _is_settled(error):
                raise


def _follow_namespaces(informers: SharedInformers, queue: WorkQueue[str]) -> Informer[Namespace]:
    namespaces = informers.of(NAMESPACES)
    namespaces.add_handler(
        on_add=lambda namespace: queue.add(namespace.metadata.name),
        on_update=lambda _, namespace: queue.add(namespace.metadata.name),
    )
    return namespaces


def _is_active(namespaces: Informer[Namespace], name: str) -> bool:
    namespace = namespaces.store.get("", name)
    return namespace is not None and namespace.metadata.deletion_timestamp is None


def _is_settled(error: StatusError) -> bool:
    """Another client was faster, or the namespace is going away."""
    # None of them needs a retry: the object is there, or must not be.
    return error.is_already_exists or error.is_not_found or error.is_namespace_terminating
