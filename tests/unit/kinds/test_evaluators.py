"""Which writes of which kind are charged to quotas (docs/spec/api.md §B.4)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from cathedra.api.core.core_v1 import ConfigMap, Pod, PodSpec, ResourceQuota, ResourceQuotaSpec, Service
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.scheme import GroupResource
from cathedra.kinds.evaluators import CLAIMS, PODS, QuotaEvaluator, evaluator_of

SERVICES = GroupResource("", "services")
MAPS = GroupResource("", "configmaps")
POD, LATE = Pod(), Pod(spec=PodSpec(active_deadline_seconds=5))


class Nothing:
    """A cluster without other objects."""

    def classes(self) -> Iterable[DeviceClass]:
        return ()

    def claims(self, namespace: str) -> Iterable[ResourceClaim]:
        return ()

    def pod(self, namespace: str, name: str) -> Pod | None:
        return None


def evaluator(resource: GroupResource) -> QuotaEvaluator:
    return evaluator_of(resource, Nothing(), extended=True)


@pytest.mark.parametrize(
    ("resource", "operation", "subresource", "new", "old", "charged"),
    [
        (PODS, "CREATE", "", POD, None, True),
        (PODS, "UPDATE", "", POD, POD, False),
        (PODS, "UPDATE", "", LATE, POD, True),
        (PODS, "UPDATE", "resize", POD, POD, True),
        (PODS, "UPDATE", "status", POD, POD, False),
        (PODS, "CREATE", "eviction", POD, None, False),
        (CLAIMS, "CREATE", "", ResourceClaim(), None, True),
        (CLAIMS, "UPDATE", "", ResourceClaim(), ResourceClaim(), True),
        (CLAIMS, "UPDATE", "status", ResourceClaim(), ResourceClaim(), False),
        (SERVICES, "UPDATE", "", Service(), Service(), True),
        (SERVICES, "UPDATE", "status", Service(), Service(), False),
        (MAPS, "CREATE", "", ConfigMap(), None, True),
        (MAPS, "UPDATE", "", ConfigMap(), ConfigMap(), False),
    ],
)
def test_writes_that_may_change_the_charge_are_charged(
    resource: GroupResource, operation: str, subresource: str, new: KubeObject, old: KubeObject | None, charged: bool
) -> None:
    assert evaluator(resource).is_charged(operation, subresource, new, old) is charged


def test_only_pods_are_in_scopes() -> None:
    scoped = ResourceQuota(spec=ResourceQuotaSpec(scopes=("Terminating",)))
    assert evaluator(PODS).is_in_scope(scoped, LATE)
    assert not evaluator(PODS).is_in_scope(scoped, POD)
    assert not evaluator(MAPS).is_in_scope(scoped, ConfigMap())
    assert evaluator(MAPS).is_in_scope(ResourceQuota(), ConfigMap())


def test_a_kind_without_rules_of_its_own_is_counted() -> None:
    names = ("configmaps", "count/configmaps", "pods")
    assert evaluator(MAPS).tracked(names, ConfigMap()) == {"configmaps", "count/configmaps"}
    assert evaluator(MAPS).missing(ConfigMap(), names) == ""
