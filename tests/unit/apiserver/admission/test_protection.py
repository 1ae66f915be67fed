"""Pod groups do not vanish under their pods."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cathedra.api.core.core_v1 import PersistentVolume
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup, PodGroup, Workload
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.apiserver.admission.protection import (
    PodGroupProtection,
    PodGroupWorkloadExists,
    StorageObjectInUseProtection,
)
from cathedra.apiserver.registry.registry import Registry
from cathedra.releases import FeatureGates
from tests.unit.apiserver.admission.writes import write
from tests.unit.kinds.objects import definition_of

FINALIZER = "scheduling.k8s.io/podgroup-protection"
PLUGIN = PodGroupProtection(FeatureGates.for_release("1.38"))


def group(*finalizers: str) -> PodGroup:
    return from_dict(PodGroup, {"metadata": {"name": "g", "finalizers": list(finalizers)}})


def test_a_new_group_is_protected_once() -> None:
    made = PLUGIN.admit(write("podgroups", new=group("a/b")))
    assert made.metadata.finalizers == ("a/b", FINALIZER)
    assert PLUGIN.admit(write("podgroups", new=made)) is made


def test_the_protection_is_not_put_back_once_it_was_taken_away() -> None:
    new = group()
    assert PLUGIN.admit(write("podgroups", "UPDATE", new, group(FINALIZER))) is new
    assert PLUGIN.admit(write("podgroups", new=new, subresource="status")) is new


@pytest.mark.parametrize(
    ("release", "finalizers"), [("1.37", ()), ("1.38", ("scheduling.k8s.io/compositepodgroup-protection",))]
)
def test_a_group_of_groups_is_protected_from_1_38_on(release: str, finalizers: tuple[str, ...]) -> None:
    plugin = PodGroupProtection(FeatureGates.for_release(release))
    new = from_dict(CompositePodGroup, {"metadata": {"name": "g"}})
    made = plugin.admit(write("compositepodgroups", new=new))
    assert made.metadata.finalizers == finalizers


def test_other_kinds_are_left_alone() -> None:
    new = group()
    assert PLUGIN.admit(write("workloads", new=new)) is new


GROUP = {"schedulingPolicy": {"basic": {}}}
NESTED = {"name": "outer", **GROUP, "podGroupTemplates": [{"name": "inner", **GROUP}]}
SPEC = {"podGroupTemplates": [{"name": "t", **GROUP}], "compositePodGroupTemplates": [NESTED]}


def referring(workload: str = "w", template: str = "t") -> PodGroup:
    reference = {"workloadName": workload, "templateName": template}
    return from_dict(PodGroup, {"metadata": {"name": "g"}, "spec": {**GROUP, "workloadRef": reference}})


class Workloads:
    """A registry with the workload «w» in the namespace «team»."""

    def find(self, resource: GroupResource, key: str) -> Any:
        assert resource.resource == "workloads"
        return from_dict(Workload, {"metadata": {"name": "w"}, "spec": SPEC}) if key == "team/w" else None


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (group(), ""),
        (referring(), ""),
        (referring(template="inner"), ""),
        (referring("x"), 'PodGroup rejected: Workload "x" not found'),
        (referring(template="x"), 'PodGroup rejected: PodGroupTemplate "x" not found in Workload "w"'),
    ],
)
def test_a_new_group_belongs_to_a_template_of_a_workload(made: PodGroup, text: str) -> None:
    plugin = PodGroupWorkloadExists(cast("Registry", Workloads()))
    request = write("podgroups", new=made, namespace="team", name="g")
    if not text:
        plugin.validate(request)
        return
    with pytest.raises(StatusError) as refused:
        plugin.validate(request)
    assert refused.value.status.code == 403
    assert text in str(refused.value)


def test_only_new_groups_are_examined() -> None:
    plugin = PodGroupWorkloadExists(cast("Registry", Workloads()))
    definition = definition_of("podgroups")
    asked = [("", "CREATE"), ("", "UPDATE"), ("status", "CREATE")]
    assert [plugin.handles(definition, *one) for one in asked] == [True, False, False]


def test_a_new_volume_is_protected_once_and_never_again() -> None:
    plugin, new = StorageObjectInUseProtection(), from_dict(PersistentVolume, {"metadata": {"name": "v"}})
    made = plugin.admit(write("persistentvolumes", new=new))
    assert made.metadata.finalizers == ("kubernetes.io/pv-protection",)
    assert plugin.admit(write("persistentvolumes", new=made)) is made
    assert plugin.admit(write("persistentvolumes", "UPDATE", new, made)) is new
