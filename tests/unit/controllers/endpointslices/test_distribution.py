"""Endpoints are spread over slices with few changes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import ObjectReference
from cathedra.api.core.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.controllers.endpointslices.distribution import LONGEST, MANAGED_BY, SERVICE_NAME, Changes, distribute
from tests.unit.controllers.endpointslices.objects import service

PORTS = (EndpointPort(name="http", port=8080, protocol="TCP"),)
OTHERS = (EndpointPort(name="http", port=9090, protocol="TCP"),)


def endpoint(number: int, *, ready: bool = True) -> Endpoint:
    pod = ObjectReference(kind="Pod", namespace="default", name=f"p{number}", uid=f"uid-p{number}")
    address = f"10.0.{number // 256}.{number % 256}"
    return Endpoint(addresses=(address,), conditions=EndpointConditions(ready=ready), target_ref=pod)


def endpoints(*numbers: int) -> list[Endpoint]:
    return [endpoint(number) for number in numbers]


def after(changes: Changes, existing: Sequence[EndpointSlice]) -> list[EndpointSlice]:
    """The slices once everything is written; new ones get names."""
    gone = {one.metadata.name for one in changes.deleted}
    kept = {one.metadata.name: one for one in existing if one.metadata.name not in gone}
    kept |= {one.metadata.name: one for one in changes.updated}
    for number, one in enumerate(changes.created):
        name = f"web-{len(existing)}{number}"
        kept[name] = with_metadata(one, name=name)
    return list(kept.values())


def settle(wanted: dict[tuple[EndpointPort, ...], list[Endpoint]], *rounds: EndpointSlice) -> list[EndpointSlice]:
    existing = list(rounds)
    return after(distribute(service(), "IPv4", wanted, existing), existing)


def numbers(slices: Sequence[EndpointSlice]) -> list[int]:
    return sorted(len(one.endpoints) for one in slices)


def test_a_new_slice_belongs_to_its_service_and_carries_its_labels() -> None:
    labelled = service(labels={"team": "a", MANAGED_BY: "me"}, clusterIP="10.0.0.10")
    (made,) = distribute(labelled, "IPv4", {PORTS: endpoints(1)}, ()).created
    assert made.metadata.generate_name == "web-"
    assert made.metadata.labels == {
        "team": "a",
        SERVICE_NAME: "web",
        MANAGED_BY: "endpointslice-controller.k8s.io",
    }
    (owner,) = made.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == ("Service", "web", True, True)
    assert (made.address_type, made.ports) == ("IPv4", PORTS)


def test_a_service_without_an_address_is_marked_as_headless() -> None:
    (made,) = distribute(service(clusterIP="None"), "IPv4", {PORTS: endpoints(1)}, ()).created
    assert made.metadata.labels["service.kubernetes.io/headless"] == ""


def test_a_service_without_pods_has_an_empty_slice_that_is_not_written_again() -> None:
    slices = settle({})
    assert [(one.endpoints, one.ports) for one in slices] == [((), ())]
    assert distribute(service(), "IPv4", {}, slices) == Changes([], [], [])


def test_the_empty_slice_becomes_that_of_the_first_endpoint() -> None:
    (empty,) = settle({})
    changes = distribute(service(), "IPv4", {PORTS: endpoints(1)}, [empty])
    assert (changes.created, changes.deleted) == ([], [])
    (updated,) = changes.updated
    assert (updated.metadata.name, updated.ports, len(updated.endpoints)) == (empty.metadata.name, PORTS, 1)


def test_a_slice_takes_a_hundred_endpoints() -> None:
    slices = settle({PORTS: endpoints(*range(250))})
    assert numbers(slices) == [50, 100, 100]
    assert distribute(service(), "IPv4", {PORTS: endpoints(*range(250))}, slices) == Changes([], [], [])


def test_what_is_new_fills_a_slice_that_changes_anyway() -> None:
    first, second = settle({PORTS: endpoints(*range(150))})
    assert (len(first.endpoints), len(second.endpoints)) == (100, 50)
    wanted = [endpoint(0, ready=False), *endpoints(*range(2, 151))]
    changes = distribute(service(), "IPv4", {PORTS: wanted}, [first, second])
    assert [one.metadata.name for one in changes.updated] == [first.metadata.name]
    assert numbers(after(changes, [first, second])) == [50, 100]


def test_what_is_new_goes_where_the_least_room_is_left() -> None:
    fuller, emptier = (
        with_metadata(one, name=name)
        for one, name in zip(
            [*settle({PORTS: endpoints(*range(90))}), *settle({PORTS: endpoints(*range(200, 210))})],
            ("fuller", "emptier"),
            strict=True,
        )
    )
    wanted = endpoints(*range(90), *range(200, 210), 300)
    changes = distribute(service(), "IPv4", {PORTS: wanted}, [emptier, fuller])
    assert [one.metadata.name for one in changes.updated] == ["fuller"]


def test_pods_with_other_ports_are_in_a_slice_of_their_own() -> None:
    slices = settle({PORTS: endpoints(1, 2), OTHERS: endpoints(3)})
    assert {one.ports: len(one.endpoints) for one in slices} == {PORTS: 2, OTHERS: 1}


def test_a_slice_that_loses_its_last_endpoint_goes_unless_it_is_the_last() -> None:
    slices = settle({PORTS: endpoints(1), OTHERS: endpoints(3)})
    changes = distribute(service(), "IPv4", {PORTS: endpoints(1)}, slices)
    assert [one.ports for one in changes.deleted] == [OTHERS]
    left = after(changes, slices)
    assert [(one.ports, one.endpoints) for one in after(distribute(service(), "IPv4", {}, left), left)] == [((), ())]


def test_slices_follow_the_labels_of_their_service() -> None:
    slices = settle({PORTS: endpoints(1)})
    changes = distribute(service(labels={"new": "label"}), "IPv4", {PORTS: endpoints(1)}, slices)
    assert [one.metadata.labels["new"] for one in changes.updated] == ["label"]


def test_slices_of_an_earlier_service_of_that_name_are_deleted_and_not_used() -> None:
    (old,) = settle({PORTS: endpoints(1)})
    owner = replace(old.metadata.owner_references[0], uid="another")
    old = with_metadata(old, owner_references=(owner,))
    changes = distribute(service(), "IPv4", {PORTS: endpoints(1)}, [old])
    assert (changes.deleted, len(changes.created)) == ([old], 1)


@given(st.lists(st.sets(st.integers(0, 260), max_size=260), min_size=1, max_size=4))
def test_every_endpoint_is_in_one_slice_and_none_is_too_long(history: list[set[int]]) -> None:
    slices: list[EndpointSlice] = []
    for present in history:
        wanted = {PORTS: endpoints(*sorted(present))} if present else {}
        slices = after(distribute(service(), "IPv4", wanted, slices), slices)
        slices = [with_metadata(one, name=f"web-{number}") for number, one in enumerate(slices)]
        found = [one.addresses for piece in slices for one in piece.endpoints]
        assert sorted(found) == sorted(one.addresses for one in endpoints(*present))
        assert all(len(piece.endpoints) <= LONGEST for piece in slices)
        assert slices
