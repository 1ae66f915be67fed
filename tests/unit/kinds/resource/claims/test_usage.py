"""How many devices a claim is charged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from cathedra.api.struct import Time, from_dict
from cathedra.kinds.resource.claims.usage import (
    SPECIAL_CLAIM,
    beyond_pod,
    claim_usage,
    devices_by_class,
    extended_name_of,
    paying_pod,
    tracked_claim_resources,
)
from tests.unit.kinds.objects import pod

DEVICES = ".deviceclass.resource.k8s.io/devices"
IMPLICIT = "requests.deviceclass.resource.kubernetes.io/"


def exactly(device_class: str, count: int = 1, mode: str = "ExactCount") -> DeviceRequest:
    exact = ExactDeviceRequest(device_class_name=device_class, allocation_mode=mode, count=count)
    return DeviceRequest(name="r", exactly=exact)


def first_of(*choices: tuple[str, int]) -> DeviceRequest:
    subrequests = tuple(
        DeviceSubRequest(name=str(position), device_class_name=name, allocation_mode="ExactCount", count=count)
        for position, (name, count) in enumerate(choices)
    )
    return DeviceRequest(name="r", first_available=subrequests)


def claim(*requests: DeviceRequest) -> ResourceClaim:
    return ResourceClaim(spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)))


def device_class(name: str, extended: str | None = None, created: int = 0) -> DeviceClass:
    metadata = ObjectMeta(name=name, creation_timestamp=Time(created))
    return DeviceClass(metadata=metadata, spec=DeviceClassSpec(extended_resource_name=extended))


@pytest.mark.parametrize(
    ("requests", "charged"),
    [
        ((exactly("a", 2), exactly("a", 3), exactly("b")), {"a": 5, "b": 1}),
        ((exactly("a", 0, "All"),), {"a": 32}),
        ((exactly("a", 7, "Tomorrow"),), {"a": 0}),
        ((first_of(("a", 1), ("a", 3), ("b", 2)),), {"a": 3, "b": 2}),
        ((first_of(("a", 4), ("b", 1)), exactly("a", 1)), {"a": 5, "b": 1}),
        ((), {}),
    ],
)
def test_requests_add_up_and_alternatives_count_their_largest(
    requests: tuple[DeviceRequest, ...], charged: dict[str, int]
) -> None:
    assert devices_by_class(claim(*requests)) == charged


def test_extended_names_are_charged_for_classes_that_exist() -> None:
    usage = claim_usage(claim(exactly("a", 2), exactly("b", 1)), [device_class("a", "example.com/x")], extended=True)
    assert {name: str(amount) for name, amount in usage.items()} == {
        "count/resourceclaims.resource.k8s.io": "1",
        f"a{DEVICES}": "2",
        f"b{DEVICES}": "1",
        f"{IMPLICIT}a": "2",
        "requests.example.com/x": "2",
    }
    plain = claim_usage(claim(exactly("a", 2)), [device_class("a", "example.com/x")], extended=False)
    assert set(plain) == {"count/resourceclaims.resource.k8s.io", f"a{DEVICES}"}


def test_of_two_classes_with_one_name_the_newer_has_it_then_the_first_by_name() -> None:
    old, new = device_class("a", "example.com/x", 1), device_class("b", "example.com/x", 2)
    twin = device_class("c", "example.com/x", 2)
    owners = [one.metadata.name for one in (old, new, twin) if extended_name_of(one, (old, new, twin))]
    assert owners == ["b"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=5))
@settings(max_examples=50, deadline=None)
def test_everything_that_is_charged_is_tracked(wanted: list[tuple[str, int]]) -> None:
    classes = [device_class("a", "example.com/x"), device_class("b")]
    usage = claim_usage(claim(*(exactly(name, count) for name, count in wanted)), classes, extended=True)
    assert tracked_claim_resources(usage, classes, extended=True) == set(usage)


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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (special("z", "2026-01-01T00:00:00Z"), special("a", "2026-01-02T00:00:00Z")),
        (special("a"), special("b")),
    ],
    ids=["the oldest", "of one age the first by name"],
)
def test_until_its_status_names_a_claim_the_pod_pays_for_one(first: ResourceClaim, second: ResourceClaim) -> None:
    paying = owner()
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
