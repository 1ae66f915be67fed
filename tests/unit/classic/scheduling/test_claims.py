"""Messages for pods with missing claims, with the texts of each release."""

from __future__ import annotations

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import PodResourceClaimStatus
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import Time, replace
from cathedra.classic.scheduling.claims import Unresolved, pod_claims
from tests.unit.classic.world import claim, pod

RELEASES = ("1.26", "1.27", "1.28", "1.29", "1.30", "1.31")


def said(release: str, *known: v1alpha2.ResourceClaim, generated: bool, recorded: bool = False) -> str:
    """Return the reason why the pod's only claim cannot be used."""
    asking = pod(cat="t:t" if generated else "c")
    if recorded:
        status = PodResourceClaimStatus(name="cat", resource_claim_name="p-cat")
        asking = replace(asking, status=replace(asking.status, resource_claim_statuses=(status,)))
    by_name = {obj.metadata.name: obj for obj in known}
    with pytest.raises(Unresolved) as refusal:
        pod_claims(asking, lambda _, name: by_name.get(name), release)
    return str(refusal.value)


@pytest.mark.parametrize("release", RELEASES)
def test_a_claim_that_a_pod_names_is_missing(release: str) -> None:
    expected = {"1.30": 'could not find claim "default/c"', "1.31": 'could not find ResourceClaim "default/c"'}
    assert said(release, generated=False) == expected.get(release, 'resourceclaim.resource.k8s.io "c" not found')


@pytest.mark.parametrize("release", RELEASES)
def test_a_claim_of_a_template_is_not_made_yet(release: str) -> None:
    waiting = 'waiting for dynamic resource controller to create the resourceclaim "p-cat"'
    if release in ("1.26", "1.27"):
        assert said(release, generated=True) == waiting
        assert said(release, generated=True, recorded=True) == waiting
    else:
        assert said(release, generated=True) == 'pod "default/p": ResourceClaim not created yet'


def test_a_claim_of_that_name_belongs_to_another_or_is_going() -> None:
    text = "ResourceClaim default/p-cat was not created for pod default/p (pod is not owner)"
    assert said("1.28", claim("p-cat"), generated=True, recorded=True) == text
    going = ObjectMeta(name="p-cat", namespace="default", deletion_timestamp=Time(1.0))
    refused = said("1.28", replace(claim("p-cat"), metadata=going), generated=True, recorded=True)
    assert refused == 'resourceclaim "p-cat" is being deleted'


def test_claims_that_are_there_are_found_under_their_entries() -> None:
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid="u", controller=True)
    asking = replace(pod(cat="c"), metadata=ObjectMeta(name="p", namespace="default", uid="u"))
    named = replace(claim("c"), metadata=ObjectMeta(name="c", namespace="default", owner_references=(owner,)))
    (found,) = pod_claims(asking, lambda _, name: named, "1.26")
    assert (found.entry, found.claim) == ("cat", named)
