"""The namespace controller: empties a namespace that is being deleted, then lets it go.

Pods go first, since they may need what else is there until they have ended. What remains, and why, is told in the
conditions of the namespace (docs/spec/controllers.md §6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from cathedra.api.core.core_v1 import Namespace, NamespaceCondition, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.resources import NAMESPACES
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.customkinds import CustomKinds
from cathedra.semantics.conditions import with_condition

__all__ = ["NamespaceController"]

FINALIZER: Final = "kubernetes"
WORKERS: Final = 10


@dataclass(slots=True)
class _Remains:
    """What is left in a namespace after an attempt to empty it."""

    instances: dict[str, int] = field(default_factory=dict)
    """``resource.group`` → how many."""
    finalizers: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    grace: int = 0
    """The longest grace period of a pod that is ending, in seconds."""

    def add(self, ref: ResourceRef[Any], objects: tuple[KubeObject, ...]) -> None:
        if not objects:
            return
        self.instances[f"{ref.resource}.{ref.group}"] = len(objects)
        for obj in objects:
            for finalizer in obj.metadata.finalizers:
                self.finalizers[finalizer] = self.finalizers.get(finalizer, 0) + 1
            if isinstance(obj, Pod):
                self.grace = max(self.grace, obj.metadata.deletion_grace_period_seconds or 0)


class NamespaceController:
    """Empties namespaces."""

    name = "namespace-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._refs = sorted(
            (ref for ref in context.served if ref.namespaced), key=lambda ref: (ref.resource != "pods", ref.group)
        )
        self._custom = CustomKinds(context.informers, self._look_after)
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._namespaces = context.informers.of(NAMESPACES)
        self._namespaces.add_handler(on_add=self._changed, on_update=lambda _, namespace: self._changed(namespace))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._custom.wait_synced()
        await self._namespaces.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=WORKERS)

    def _look_after(self, ref: ResourceRef[Any]) -> None:
        if ref.namespaced:
            self._refs.append(ref)

    def _changed(self, namespace: Namespace) -> None:
        if namespace.metadata.deletion_timestamp is not None:
            self._queue.add(namespace.metadata.name)

    async def _reconcile(self, name: str) -> float | None:
        namespace = self._namespaces.store.get("", name)
        if namespace is None or namespace.metadata.deletion_timestamp is None or not namespace.spec.finalizers:
            return None
        if namespace.status.phase != "Terminating":
            status = replace(namespace.status, phase="Terminating")
            await self._client.resource(NAMESPACES).update_status(replace(namespace, status=status))
            return None
        remains = await self._empty(name)
        namespace = await self._tell(namespace, remains)
        if remains.errors:
            return 5.0
        if remains.instances:
            # Half of what is expected, as an end may come early; everything but pods goes within moments.
            return remains.grace / 2 + 1 if remains.grace else 1.0
        await self._finalize(namespace)
        return None

    async def _empty(self, namespace: str) -> _Remains:
        remains = _Remains()
        for ref in tuple(self._refs):
            if ref.resource != "pods" and "pods." in remains.instances:
                break
            try:
                await self._empty_resource(ref, namespace, remains)
            except StatusError as error:
                if error.is_not_found:
                    # The kind itself is gone, and its objects with it.
                    continue
                shown = GroupResource(ref.group, ref.resource)
                remains.errors.append(f"failed to delete all {shown}: {error}")
        return remains

    async def _empty_resource(self, ref: ResourceRef[Any], namespace: str, remains: _Remains) -> None:
        resource = self._client.resource(ref, namespace)
        if not (await resource.list(limit=1)).items:
            return
        await resource.delete_collection(propagation_policy="Background")
        remains.add(ref, (await resource.list()).items)

    async def _tell(self, namespace: Namespace, remains: _Remains) -> Namespace:
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


def _conditions(remains: _Remains, now: Time) -> tuple[NamespaceCondition, ...]:
    failed = "; ".join(sorted(remains.errors))
    left = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remains.instances.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(remains.finalizers.items()))

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
