"""Pods are found by the claims that they name, and by their PodGroup."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod, PodExtendedResourceClaimStatus, PodResourceClaimStatus, PodSpec
from cathedra.api.struct import from_dict, replace
from cathedra.client.objects import with_metadata
from cathedra.client.store import Store
from cathedra.semantics.podclaims import (
    BY_CLAIM,
    BY_GROUP,
    by_claim,
    by_group,
    names_same_claims,
    same_group,
)

ENTRIES = [{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}]


def pod(**spec: Any) -> Pod:
    status = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}]}
    return from_dict(Pod, {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": status})


def test_named_and_generated_claims_are_known() -> None:
    assert set(by_claim(pod(resourceClaims=ENTRIES))) == {"ns/c", "ns/p-b-x"}
    assert list(by_claim(pod())) == []


def test_a_pod_of_a_group_is_found_by_it() -> None:
    assert list(by_group(pod(schedulingGroup={"podGroupName": "g"}))) == ["ns/g"]
    assert list(by_group(pod())) == []


SPECS = st.sampled_from(
    [
        {},
        {"resourceClaims": ENTRIES},
        {"resourceClaims": ENTRIES[:1], "nodeName": "n"},
        {"resourceClaims": ENTRIES, "schedulingGroup": {"podGroupName": "g"}},
    ]
)
CHANGES = st.lists(
    st.one_of(
        SPECS.map(lambda spec: lambda old: replace(old, spec=from_dict(PodSpec, spec))),
        st.sampled_from([(), (PodResourceClaimStatus(name="b", resource_claim_name="p-b-x"),)]).map(
            lambda found: lambda old: replace(old, status=replace(old.status, resource_claim_statuses=found))
        ),
        st.sampled_from([None, PodExtendedResourceClaimStatus(resource_claim_name="e")]).map(
            lambda found: lambda old: replace(old, status=replace(old.status, extended_resource_claim_status=found))
        ),
        st.just(lambda old: replace(old, status=replace(old.status, phase="Running"))),
        st.just(lambda old: replace(old, spec=replace(old.spec, node_name="n"))),
        st.just(lambda old: with_metadata(old, resource_version="2")),
    )
)


@given(CHANGES)
def test_pods_are_found_by_what_they_name_now_also_where_the_indexers_are_not_asked(changes: list[Any]) -> None:
    store: Store[Pod] = Store()
    store.add_index(BY_CLAIM, by_claim, names_same_claims)
    store.add_index(BY_GROUP, by_group, same_group)
    state = pod(resourceClaims=ENTRIES)
    store.put(state)
    for change in changes:
        state = change(state)
        store.put(state)
        assert set(store.index_values(BY_CLAIM)) == set(by_claim(state))
        assert set(store.index_values(BY_GROUP)) == set(by_group(state))
