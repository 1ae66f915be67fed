"""A namespace gets no more than its quotas allow (plugin ResourceQuota; docs/spec/apimachinery.md §16.5;
docs/spec/api.md §B.4).

The last plugin to be called: when everything else has agreed, the object is charged at once to the ``used`` of every
quota that it concerns. What deletions give back is counted by the quota controller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod, ResourceQuota
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
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.evaluators import CLAIMS, PODS, QuotaEvaluator, evaluator_of
from cathedra.releases import FeatureGates

_QUOTAS: Final = GroupResource("", "resourcequotas")
_CLASSES: Final = GroupResource("resource.k8s.io", "deviceclasses")
_ATTEMPTS: Final = 8
"""Attempts to charge a quota while other writes charge the same one."""

Usage = Mapping[str, Quantity]


class _Charge(msgspec.Struct, frozen=True):
    """A quota and its usage after the charge."""

    entry: StoredObject
    used: dict[str, Quantity]


class ResourceQuotaCheck(AdmissionPlugin):
    """Charges new objects to the quotas of their namespace."""

    name = "ResourceQuota"
    rules = frozenset({_QUOTAS})

    def __init__(self, registry: Registry, gates: FeatureGates) -> None:
        self._registry = registry
        self._lookups = _StoredObjects(registry)
        self._extended = gates.get("DRAExtendedResource", False)

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle everything while there is a quota."""
        return bool(self._registry.count(_QUOTAS))

    async def validate(self, request: AdmissionAttributes) -> None:
        """Charge the object.

        Raises:
            StatusError: 403, a quota would be exceeded, or does not know yet what is used.
        """
        if not request.namespace or not request.definition.namespaced or request.operation == "DELETE":
            return
        evaluator = evaluator_of(request.definition.group_resource, self._lookups, extended=self._extended)
        if not evaluator.is_charged(request.operation, request.subresource, request.object, request.old_object):
            return
        # Several writes may charge one quota at the same time. Each attempt reads the usage anew: otherwise the
        # last one would overwrite the charges of the others, and the namespace would get more than its quota.
        charged: set[str] = set()
        for _ in range(_ATTEMPTS):
            charges = self._charges(request, evaluator, charged)
            if request.dry_run or not charges:
                return
            if await self._apply(charges, charged):
                return
        raise conflict(_QUOTAS, charges[0].entry.object.metadata.name, "too many others charge the quota")

    def _charges(
        self, request: AdmissionAttributes, evaluator: QuotaEvaluator, charged: Collection[str]
    ) -> list[_Charge]:
        """Return the charges to all quotas except those that were ``charged`` in an earlier attempt."""
        new, old = request.object, request.old_object
        quotas = [
            entry
            for entry in self._quotas(request.namespace)
            if entry.key not in charged
            and evaluator.tracked(entry.object.status.hard, new)
            and evaluator.is_in_scope(entry.object, new)
        ]
        for entry in quotas:
            self._check_known(entry.object, request, evaluator)
        if not quotas:
            return []
        usage = evaluator.usage(new)
        before = evaluator.usage(old) if old is not None else {}
        charges = []
        for entry in quotas:
            # What was outside of the quota's scopes has not been charged to it.
            paid = before if old is not None and evaluator.is_in_scope(entry.object, old) else {}
            charges.append(self._charge(entry, _beyond(usage, paid), request))
        return [charge for charge in charges if charge is not None]

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

    async def _apply(self, charges: Iterable[_Charge], charged: set[str]) -> bool:
        """Write the usage of each quota, and add its key to ``charged``; return False if another write was faster."""
        table = self._registry.table(_QUOTAS)
        for charge in charges:
            quota: ResourceQuota = charge.entry.object
            if charge.used == quota.status.used:
                continue
            changed = replace(quota, status=replace(quota.status, used=charge.used))
            try:
                await self._registry.put(table, charge.entry.key, charge.entry, changed)
                charged.add(charge.entry.key)
            except WriteConflict:
                # The next attempt charges this quota and those behind it. The ones before it have been charged.
                await self._registry.quiet(table, charge.entry.key)
                return False
        return True

    def _quotas(self, namespace: str) -> list[StoredObject]:
        try:
            table = self._registry.table(_QUOTAS)
        except KeyError:
            return []
        return list(table.select(Selection(namespace))) if len(table) else []

    def _check_known(self, quota: ResourceQuota, request: AdmissionAttributes, evaluator: QuotaEvaluator) -> None:
        tracked = evaluator.tracked(quota.status.hard, request.object)
        name = quota.metadata.name
        if missing := evaluator.missing(request.object, tracked):
            raise self._refused(request, f"failed quota: {name}: must specify {missing}")
        # Until the quota controller has counted what is there, a charge would start from zero.
        if any(resource not in quota.status.used for resource in tracked):
            raise self._refused(request, f"status unknown for quota: {name}, resources: {','.join(sorted(tracked))}")

    @staticmethod
    def _refused(request: AdmissionAttributes, why: str) -> StatusError:
        return forbidden(request.definition.group_resource, request.object.metadata.name, why)


class _StoredObjects:
    """The objects in the registry that charges depend on."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def classes(self) -> list[DeviceClass]:
        """Return all device classes, whose names appear in quotas."""
        return [entry.object for entry in self._registry.table(_CLASSES).entries()]

    def claims(self, namespace: str) -> list[ResourceClaim]:
        """Return the claims of a namespace."""
        return [entry.object for entry in self._registry.table(CLAIMS).select(Selection(namespace))]

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod; None if it does not exist."""
        return self._registry.find(PODS, f"{namespace}/{name}")


def _beyond(usage: Usage, charged: Usage) -> dict[str, Quantity]:
    """Return the usage beyond the amount charged before."""
    added = {name: amount - charged[name] if name in charged else amount for name, amount in usage.items()}
    # What becomes less is not given back here: the quota controller does that (Kubernetes' RemoveZeros of the delta).
    return {name: amount for name, amount in added.items() if amount.sign() > 0}


def _shown(amounts: Usage, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names) if name in amounts)
