"""From a pod's entries to its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict
from cathedra.semantics.podclaims import (
    ClaimNotCreated,
    EntryClaim,
    EntryUnset,
    NotOwner,
    check_group_owner,
    check_owner,
    claim_names,
    entry_claim,
    group_consumer,
    group_entry_claim,
    is_done_with_claims,
    is_made_for,
    is_reserved_for,
    is_reserved_for_group_named,
    pod_consumer,
    pod_group_name,
    shares_claim,
    template_names,
)
from tests.costs import costs_less_than

NAMED = {"name": "a", "resourceClaimName": "shared"}
MADE = {"name": "b", "resourceClaimTemplateName": "t"}


def pod(*entries: Mapping[str, str], recorded: Sequence[Mapping[str, str]] = (), **status: Any) -> Pod:
    metadata = {"name": "p", "namespace": "ns", "uid": "uid-p"}
    spec = {"resourceClaims": list(entries), "schedulingGroup": {"podGroupName": "g"}}
    return from_dict(
        Pod, {"metadata": metadata, "spec": spec, "status": {"resourceClaimStatuses": list(recorded), **status}}
    )


def group(*entries: Mapping[str, str], recorded: Sequence[Mapping[str, str]] = (), uid: str = "uid-g") -> PodGroup:
    return from_dict(
        PodGroup,
        {
            "metadata": {"name": "g", "namespace": "ns", "uid": uid},
            "spec": {"resourceClaims": list(entries)},
            "status": {"resourceClaimStatuses": list(recorded)},
        },
    )


def claim(owner: Mapping[str, Any] | None = None, reserved: Sequence[Mapping[str, str]] = ()) -> ResourceClaim:
    owners = [{"controller": True, **owner}] if owner is not None else []
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": "c", "namespace": "ns", "ownerReferences": owners},
            "spec": {},
            "status": {"reservedFor": list(reserved)},
        },
    )


POD_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}
GROUP_OWNER = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "uid-g"}


def test_an_entry_leads_to_its_claim_by_name_or_through_the_status() -> None:
    made = pod(NAMED, MADE, recorded=[{"name": "b", "resourceClaimName": "p-b-x"}])
    first, second = made.spec.resource_claims
    assert entry_claim(made, first) == EntryClaim("a", "shared", generated=False)
    assert entry_claim(made, second) == EntryClaim("b", "p-b-x", generated=True)
    assert list(claim_names(made)) == ["shared", "p-b-x"]
    assert list(template_names(made)) == ["t"]


def test_an_entry_recorded_without_a_claim_needs_none() -> None:
    made = pod(MADE, recorded=[{"name": "b"}])
    assert entry_claim(made, made.spec.resource_claims[0]) is None
    assert list(claim_names(made)) == []


def test_what_cannot_be_resolved_is_said_in_kubernetes_words() -> None:
    unset = pod({"name": "c"}, MADE)
    with pytest.raises(EntryUnset, match=r'^pod "ns/p", spec.resourceClaim "c": none of the supported fields are set$'):
        entry_claim(unset, unset.spec.resource_claims[0])
    with pytest.raises(ClaimNotCreated, match=r'^pod "ns/p": ResourceClaim not created yet$'):
        entry_claim(unset, unset.spec.resource_claims[1])
    with pytest.raises(ClaimNotCreated, match=r"^PodGroup ns/g: ResourceClaim not created yet$"):
        group_entry_claim(group(MADE), unset.spec.resource_claims[1])
    assert list(claim_names(unset)) == []


def test_the_claim_for_extended_resources_comes_last() -> None:
    made = pod(NAMED, extendedResourceClaimStatus={"resourceClaimName": "p-ext", "requestMappings": []})
    assert list(claim_names(made)) == ["shared", "p-ext"]


def test_an_entry_is_the_groups_if_name_and_reference_are_the_same() -> None:
    one = pod(MADE).spec.resource_claims[0]
    assert shares_claim(one, group(MADE))
    assert not shares_claim(one, group({"name": "b", "resourceClaimTemplateName": "other"}))
    assert not shares_claim(one, group({"name": "x", "resourceClaimTemplateName": "t"}))
    found = group_entry_claim(group(MADE, recorded=[{"name": "b", "resourceClaimName": "g-b"}]), one)
    assert found == EntryClaim("b", "g-b", generated=True)


def test_a_generated_claim_belongs_to_the_pod_it_was_made_for() -> None:
    made = pod(MADE)
    check_owner(claim(POD_OWNER), made, "")
    assert not is_made_for(claim(GROUP_OWNER), made, "")
    with pytest.raises(NotOwner, match=r"^ResourceClaim ns/c was not created for Pod ns/p \(Pod is not owner\)$"):
        check_owner(claim({**POD_OWNER, "uid": "older"}), made, "")


def test_a_claim_of_the_pods_group_will_do_in_any_version_of_the_groups_kind() -> None:
    made = pod(MADE)
    check_owner(claim(GROUP_OWNER), made, pod_group_name(made))
    with pytest.raises(NotOwner, match=r"\(neither Pod nor PodGroup g is the owner\)$"):
        check_owner(claim({**GROUP_OWNER, "apiVersion": "example.com/v1"}), made, "g")
    check_group_owner(claim(GROUP_OWNER), group())
    with pytest.raises(NotOwner, match=r"was not created for PodGroup ns/g \(PodGroup is not owner\)$"):
        check_group_owner(claim(POD_OWNER), group())


def test_a_reservation_for_the_group_is_one_for_its_pods() -> None:
    made = pod(MADE)
    mine = claim(reserved=[{"resource": "pods", "name": "p", "uid": "uid-p"}])
    ours = claim(reserved=[{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}])
    assert is_reserved_for(mine, made, None)
    assert not is_reserved_for(ours, made, None)
    assert is_reserved_for(ours, made, group())
    assert not is_reserved_for(ours, made, group(uid="recreated"))
    assert is_reserved_for_group_named(ours, made, "g")
    assert not is_reserved_for_group_named(ours, made, "")
    assert ours.status.reserved_for == (group_consumer(group()),)
    assert mine.status.reserved_for == (pod_consumer(made),)


def test_a_pod_is_done_when_it_has_ended_or_was_deleted_before_it_was_placed() -> None:
    metadata = {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert is_done_with_claims(from_dict(Pod, {"metadata": metadata, "spec": {}}))
    assert not is_done_with_claims(from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": "n"}}))
    assert is_done_with_claims(from_dict(Pod, {"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}))


def test_thousands_of_generated_claims_are_found_in_one_pass() -> None:
    count = 30_000
    entries = [{"name": f"e{number}", "resourceClaimTemplateName": "t"} for number in range(count)]
    recorded = [{"name": f"e{number}", "resourceClaimName": f"c{number}"} for number in reversed(range(count))]
    with costs_less_than(3):
        assert claim_names(pod(*entries, recorded=recorded)) == [f"c{number}" for number in range(count)]
