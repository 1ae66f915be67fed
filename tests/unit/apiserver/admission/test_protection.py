"""Pod groups do not vanish under their pods."""

from __future__ import annotations

from cathedra.api.core.scheduling_v1alpha3 import PodGroup
from cathedra.api.struct import from_dict
from cathedra.apiserver.admission.protection import PodGroupProtection
from tests.unit.apiserver.admission.writes import write

FINALIZER = "scheduling.k8s.io/podgroup-protection"
PLUGIN = PodGroupProtection()


def group(*finalizers: str) -> PodGroup:
    return from_dict(PodGroup, {"metadata": {"name": "g", "finalizers": list(finalizers)}})


async def test_a_new_group_is_protected_once() -> None:
    made = await PLUGIN.admit(write("podgroups", new=group("a/b")))
    assert made.metadata.finalizers == ("a/b", FINALIZER)
    assert await PLUGIN.admit(write("podgroups", new=made)) is made


async def test_the_protection_is_not_put_back_once_it_was_taken_away() -> None:
    new = group()
    assert await PLUGIN.admit(write("podgroups", "UPDATE", new, group(FINALIZER))) is new
    assert await PLUGIN.admit(write("podgroups", new=new, subresource="status")) is new


async def test_other_kinds_are_left_alone() -> None:
    new = group()
    assert await PLUGIN.admit(write("workloads", new=new)) is new
