"""Quota evaluators: for each kind, which writes are charged to quotas, with what, and to which of them.

Admission charges with them, and the quota controller counts anew with them (docs/spec/api.md §B.4;
docs/spec/apimachinery.md §16.5). Pods and claims have rules of their own; of everything else the objects are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from cathedra.api.core.core_v1 import Pod, ResourceQuota
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.scheme import GroupResource
from cathedra.kinds.core.pods.usage import missing_resources, pod_in_scopes, pod_usage, tracked_pod_resources
from cathedra.kinds.core.quotas import object_usage
from cathedra.kinds.resource.claims.usage import beyond_pod, claim_usage, paying_pod, tracked_claim_resources

PODS: Final = GroupResource("", "pods")
CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
_CHANGING: Final = frozenset({GroupResource("", "services"), GroupResource("", "persistentvolumeclaims")})
"""Counted kinds whose charge an update may change: the type of a service, the size of a volume."""


class QuotaLookups(Protocol):
    """The other objects that a charge depends on."""

    def classes(self) -> Iterable[DeviceClass]:
        """Return all device classes."""

    def claims(self, namespace: str) -> Iterable[ResourceClaim]:
        """Return the claims of a namespace."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, if it is there."""


class QuotaEvaluator:
    """The rules of a kind that is only counted, and the base of the others."""

    def __init__(self, resource: GroupResource) -> None:
        self.resource = resource

    def is_charged(self, operation: str, subresource: str, new: Any, old: Any) -> bool:
        """Return True if a write of ``new`` over ``old`` may change the charge."""
        return not subresource and (operation == "CREATE" or (operation == "UPDATE" and self.resource in _CHANGING))

    def tracked(self, names: Iterable[str], obj: Any) -> set[str]:
        """Return the resources of a quota that ``obj`` can be charged for."""
        return set(names) & self.usage(obj).keys()

    def is_in_scope(self, quota: ResourceQuota, obj: Any) -> bool:
        """Return True if the quota's scopes hold the object; only pods are in any."""
        return not quota.spec.scopes and quota.spec.scope_selector is None

    def missing(self, obj: Any, required: Iterable[str]) -> str:
        """Return the amounts that a quota requires and the object does not state, or ""."""
        return ""

    def usage(self, obj: Any) -> Mapping[str, Quantity]:
        """Return the charge of the object."""
        return object_usage(self.resource, obj)


class _PodEvaluator(QuotaEvaluator):
    """Pods: charged when they are made, when they are resized, and when a deadline takes them into another scope."""

    def __init__(self, *, extended: bool) -> None:
        super().__init__(PODS)
        self._extended = extended

    def is_charged(self, operation: str, subresource: str, new: Pod, old: Pod) -> bool:
        if subresource:
            return (operation, subresource) == ("UPDATE", "resize")
        if operation == "UPDATE":
            # Scopes Terminating and NotTerminating depend on the deadline: setting it moves the pod to other quotas.
            return (new.spec.active_deadline_seconds is None) is not (old.spec.active_deadline_seconds is None)
        return operation == "CREATE"

    def tracked(self, names: Iterable[str], obj: Pod) -> set[str]:
        return tracked_pod_resources(names, extended=self._extended)

    def is_in_scope(self, quota: ResourceQuota, obj: Pod) -> bool:
        return pod_in_scopes(quota, obj)

    def missing(self, obj: Pod, required: Iterable[str]) -> str:
        return missing_resources(obj, required)

    def usage(self, obj: Pod) -> Mapping[str, Quantity]:
        return pod_usage(obj, extended=self._extended)


class _ClaimEvaluator(QuotaEvaluator):
    """Claims: charged device by device, beyond what a pod pays for them already."""

    def __init__(self, lookups: QuotaLookups, *, extended: bool) -> None:
        super().__init__(CLAIMS)
        self._lookups = lookups
        self._extended = extended

    def is_charged(self, operation: str, subresource: str, new: ResourceClaim, old: ResourceClaim) -> bool:
        return not subresource and operation in {"CREATE", "UPDATE"}

    def tracked(self, names: Iterable[str], obj: ResourceClaim) -> set[str]:
        return tracked_claim_resources(names, self._lookups.classes(), extended=self._extended)

    def usage(self, obj: ResourceClaim) -> Mapping[str, Quantity]:
        usage = claim_usage(obj, self._lookups.classes(), extended=self._extended)
        if not self._extended:
            return usage
        namespace, find = obj.metadata.namespace, self._lookups.pod
        payer = paying_pod(obj, lambda name: find(namespace, name), lambda: self._lookups.claims(namespace))
        return beyond_pod(usage, payer)


def evaluator_of(resource: GroupResource, lookups: QuotaLookups, *, extended: bool) -> QuotaEvaluator:
    """Return the evaluator of a resource. ``extended``: devices also count under the names of extended resources."""
    if resource == PODS:
        return _PodEvaluator(extended=extended)
    if resource == CLAIMS:
        return _ClaimEvaluator(lookups, extended=extended)
    return QuotaEvaluator(resource)
