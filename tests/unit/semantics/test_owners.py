"""Which object controls another."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import ReplicaSet
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import replace
from cathedra.semantics.owners import (
    controller_of,
    controller_reference,
    controller_uid,
    is_controlled_by,
    owner_uids,
    same_owners,
)

OWNER = ReplicaSet(metadata=ObjectMeta(name="rs", namespace="ns", uid="u1"))


def owned(*references: OwnerReference) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="ns", owner_references=references))


def test_the_reference_to_a_controller_names_its_kind_and_holds_its_deletion_back() -> None:
    reference = controller_reference(OWNER)
    assert reference == OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name="rs", uid="u1", controller=True, block_owner_deletion=True
    )
    assert is_controlled_by(owned(reference), OWNER)


def test_a_reference_may_leave_foreground_deletion_alone() -> None:
    assert controller_reference(OWNER, block_owner_deletion=None).block_owner_deletion is None


def test_an_owner_that_is_no_controller_controls_nothing() -> None:
    plain = OwnerReference(api_version="v1", kind="Node", name="n", uid="u0")
    pod = owned(plain)
    assert controller_of(pod) is None
    assert list(controller_uid(pod)) == []
    assert list(owner_uids(pod)) == ["u0"]


def test_the_uid_decides_not_the_name() -> None:
    recreated = ReplicaSet(metadata=ObjectMeta(name="rs", namespace="ns", uid="u2"))
    pod = owned(controller_reference(OWNER))
    assert not is_controlled_by(pod, recreated)
    assert list(controller_uid(pod)) == ["u1"]


def test_owners_that_were_left_alone_are_the_same_and_new_ones_are_not() -> None:
    owners = (OwnerReference(api_version="v1", kind="Pod", name="p", uid="u"),)
    pod = Pod(metadata=ObjectMeta(name="a", owner_references=owners))
    assert same_owners(pod, replace(pod, metadata=replace(pod.metadata, labels={"a": "b"})))
    assert not same_owners(pod, replace(pod, metadata=replace(pod.metadata, owner_references=())))
