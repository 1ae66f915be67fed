"""A namespace gets no more than its quotas allow (plugin ResourceQuota; docs/spec/apimachinery.md §16.5;
docs/spec/api.md §B.4).

The last plugin to be called: when everything else has agreed, the object is charged at once to the ``used`` of every
quota that it concerns. What deletions give back is counted by the quota controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cathedra.api.core.core_v1 import Pod, ResourceQuota
from cathedra.api.gates import FeatureGates
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, conflict, forbidden
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.registry import Registry, WriteConflict
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.kinds.core.pods.usage import missing_resources, pod_in_scopes, pod_usage, tracked_pod_resources
from cathedra.kinds.core.quotas import object_usage
from cathedra.kinds.resource.claims.extended import beyond_pod, paying_pod
from cathedra.kinds.resource.claims.usage import claim_usage, tracked_claim_resources

__all__ = ["ResourceQuotaCheck"]

_QUOTAS: Final = GroupResource("", "resourcequotas")
_PODS: Final = GroupResource("", "pods")
_CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
_CLASSES: Final = GroupResource("resource.k8s.io", "deviceclasses")
_ATTEMPTS: Final = 8
"""How often a charge is computed anew when others charge the same quota."""

Usage = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class _Charge:
    """A quota, and what it will say is used."""

    entry: StoredObject
    used: dict[str, Quantity]


class ResourceQuotaCheck(AdmissionPlugin):
    """Charges new objects to the quotas of their namespace."""

    def __init__(self, registry: Registry, gates: FeatureGates) -> None:
        self._registry = registry
        self._extended = gates.get("DRAExtendedResource", False)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Charge the object.

        Raises:
            StatusError: 403, a quota would be exceeded, or does not know yet what is used.
        """
        if not self._concerned(request):
            return
        for _ in range(_ATTEMPTS):
            charges = self._charges(request)
            if request.dry_run or not charges:
                return
            if await self._apply(charges):
                return
        raise conflict(_QUOTAS, charges[0].entry.object.metadata.name, "too many others charge the quota")

    def _concerned(self, request: AdmissionAttributes) -> bool:
        if request.subresource or not request.namespace or not request.definition.namespaced:
            return False
        updates = request.definition.group_resource == _CLAIMS
        return request.operation == "CREATE" or (updates and request.operation == "UPDATE")

    def _charges(self, request: AdmissionAttributes) -> list[_Charge]:
        quotas = [q for q in self._quotas(request.namespace) if self._matches(q.object, request)]
        for entry in quotas:
            self._check_known(entry.object, request)
        if not quotas:
            return []
        added = self._added(request)
        if not added:
            return []
        return [charge for entry in quotas if (charge := self._charge(entry, added, request)) is not None]

    def _charge(self, entry: StoredObject, added: Usage, request: AdmissionAttributes) -> _Charge | None:
        status = entry.object.status
        requested = {name: amount for name, amount in added.items() if name in status.hard}
        if not requested:
            return None
        zero = Quantity.of_value(0)
        total = {name: status.used.get(name, zero) + amount for name, amount in requested.items()}
        exceeded = [name for name in requested if total[name] > status.hard[name]]
        if exceeded:
            raise self._refused(
                request,
                f"exceeded quota: {entry.object.metadata.name}, requested: {_shown(requested, exceeded)}, "
                f"used: {_shown(status.used, exceeded)}, limited: {_shown(status.hard, exceeded)}",
            )
        return _Charge(entry, {**status.used, **total})

    async def _apply(self, charges: Iterable[_Charge]) -> bool:
        """Write what is used now; False if another write was faster."""
        table = self._registry.table(_QUOTAS)
        for charge in charges:
            quota: ResourceQuota = charge.entry.object
            if charge.used == quota.status.used:
                continue
            charged = replace(quota, status=replace(quota.status, used=charge.used))
            try:
                await self._registry.put(table, charge.entry.key, charge.entry, charged)
            except WriteConflict:
                await self._registry.quiet(table, charge.entry.key)
                return False
        return True

    def _quotas(self, namespace: str) -> list[StoredObject]:
        try:
            table = self._registry.table(_QUOTAS)
        except KeyError:
            return []
        return list(table.select(Selection(namespace))) if len(table) else []

    def _matches(self, quota: ResourceQuota, request: AdmissionAttributes) -> bool:
        if not self._tracked(quota, request):
            return False
        if request.definition.group_resource == _PODS:
            return pod_in_scopes(quota, request.object)
        return not quota.spec.scopes and quota.spec.scope_selector is None

    def _tracked(self, quota: ResourceQuota, request: AdmissionAttributes) -> set[str]:
        """Which of the quota's resources this kind of object can be charged for."""
        resource, limited = request.definition.group_resource, quota.status.hard
        if resource == _PODS:
            return tracked_pod_resources(limited, extended=self._extended)
        if resource == _CLAIMS:
            return tracked_claim_resources(limited, self._classes(), extended=self._extended)
        return limited.keys() & object_usage(resource, request.object).keys()

    def _check_known(self, quota: ResourceQuota, request: AdmissionAttributes) -> None:
        tracked = self._tracked(quota, request)
        name = quota.metadata.name
        if request.definition.group_resource == _PODS:
            missing = missing_resources(request.object, tracked)
            if missing:
                raise self._refused(request, f"failed quota: {name}: must specify {missing}")
        if any(resource not in quota.status.used for resource in tracked):
            raise self._refused(request, f"status unknown for quota: {name}, resources: {','.join(sorted(tracked))}")

    def _added(self, request: AdmissionAttributes) -> dict[str, Quantity]:
        """What the object is charged beyond what it was charged before."""
        usage = self._usage(request, request.object)
        before = self._usage(request, request.old_object) if request.old_object is not None else {}
        added = {name: amount - before[name] if name in before else amount for name, amount in usage.items()}
        return {name: amount for name, amount in added.items() if amount.sign() > 0}

    def _usage(self, request: AdmissionAttributes, obj: Any) -> dict[str, Quantity]:
        resource = request.definition.group_resource
        if resource == _PODS:
            return pod_usage(obj, extended=self._extended)
        if resource == _CLAIMS:
            usage = claim_usage(obj, self._classes(), extended=self._extended)
            return beyond_pod(usage, self._paying_pod(obj)) if self._extended else usage
        return object_usage(resource, obj)

    def _paying_pod(self, claim: ResourceClaim) -> Pod | None:
        namespace = claim.metadata.namespace
        return paying_pod(
            claim,
            lambda name: self._registry.find(_PODS, f"{namespace}/{name}"),
            lambda: (entry.object for entry in self._registry.table(_CLAIMS).select(Selection(namespace))),
        )

    def _classes(self) -> list[DeviceClass]:
        return [entry.object for entry in self._registry.table(_CLASSES).entries()]

    @staticmethod
    def _refused(request: AdmissionAttributes, why: str) -> StatusError:
        return forbidden(request.definition.group_resource, request.object.metadata.name, why)


def _shown(amounts: Usage, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names) if name in amounts)
