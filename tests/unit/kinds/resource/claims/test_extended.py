"""Claims for a pod's extended resources, and the pod that pays for them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.claims.extended import beyond_pod, paying_pod
from cathedra.kinds.resource.claims.usage import SPECIAL_CLAIM
from tests.unit.kinds.objects import pod

GPU = "example.com/gpu"


def amounts(**values: int) -> dict[str, Quantity]:
    return {f"requests.example.com/{name}": Quantity.of_value(value) for name, value in values.items()}


def asking(count: int) -> Pod:
    return pod({"resources": {"requests": {GPU: str(count)}, "limits": {GPU: str(count)}}})


def test_a_claim_without_a_pod_is_charged_in_full() -> None:
    assert beyond_pod(amounts(gpu=3), None) == amounts(gpu=3)


@given(st.integers(0, 9), st.integers(0, 9))
def test_a_claim_is_charged_what_its_pod_does_not_pay(claimed: int, paid: int) -> None:
    found = beyond_pod(amounts(gpu=claimed, other=1), asking(paid))
    assert found == amounts(gpu=max(claimed - paid, 0), other=1)


def special(name: str = "c", created: str = "2026-01-01T00:00:00Z", **owner: Any) -> ResourceClaim:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True, **owner}
    metadata = {
        "name": name,
        "creationTimestamp": created,
        "annotations": {SPECIAL_CLAIM: "true"},
        "ownerReferences": [reference],
    }
    return from_dict(ResourceClaim, {"metadata": metadata})


def owner(status: str | None = None, uid: str = "1") -> Pod:
    told = {"extendedResourceClaimStatus": {"resourceClaimName": status}} if status is not None else {}
    return pod(metadata={"uid": uid}, status=told)


def payer(claim: ResourceClaim, found: Pod | None, *rivals: ResourceClaim) -> Pod | None:
    return paying_pod(claim, lambda name: found if name == "p" else None, lambda: (claim, *rivals))


def test_the_pod_whose_status_names_the_claim_pays_for_it() -> None:
    paying = owner("c")
    assert payer(special("c"), paying) is paying
    assert payer(special("d"), paying) is None


def test_until_the_status_says_so_the_pod_pays_for_the_oldest_of_its_claims() -> None:
    paying, early, late = owner(), special("z", "2026-01-01T00:00:00Z"), special("a", "2026-01-02T00:00:00Z")
    assert payer(early, paying, late) is paying
    assert payer(late, paying, early) is None


def test_of_claims_of_one_age_the_first_by_name_is_paid_for() -> None:
    paying, first, second = owner(), special("a"), special("b")
    assert payer(first, paying, second) is paying
    assert payer(second, paying, first) is None


def test_claims_of_other_pods_are_no_rivals() -> None:
    paying, foreign = owner(), special("a", "2020-01-01T00:00:00Z", uid="2")
    assert payer(special("c"), paying, foreign) is paying


def test_nothing_pays_for_a_claim_that_no_living_pod_owns_as_special() -> None:
    ordinary = from_dict(ResourceClaim, {"metadata": {"name": "c"}})
    assert payer(ordinary, owner("c")) is None
    assert payer(special("c"), None) is None
    assert payer(special("c"), owner("c", uid="another pod of that name")) is None
    assert payer(special("c", kind="Job"), owner("c")) is None
