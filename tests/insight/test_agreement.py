"""Explanations agree with the allocator: it fits where, and only where, the claim is allocated (random clusters)."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cathedra.allocation import AllocationError, fits
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import to_dict
from cathedra.insight.explanation.explain import explain
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from tests.insight.building import Object, claim, device, device_class, held, node, pod, request, slice_of

A = 'device.attributes["gpu.example.com"]'
SELECTORS = (f'{A}.model == "a"', f'{A}.model == "b" && {A}.numa == 1', f"{A}.ready", f"{A}.?ready.orValue(false)")
CONSTRAINTS = ({"matchAttribute": "gpu.example.com/numa"}, {"distinctAttribute": "gpu.example.com/model"})


@st.composite
def devices(draw: st.DrawFn, number: int) -> Object:
    made = device(f"gpu-{number}", model=draw(st.sampled_from("ab")), numa=draw(st.integers(0, 1)))
    if draw(st.booleans()):
        made["attributes"]["ready"] = {"bool": draw(st.booleans())}
    if draw(st.integers(0, 4)) == 0:
        made["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    return made


@st.composite
def requests(draw: st.DrawFn, name: str) -> Object:
    chosen = draw(st.lists(st.sampled_from(SELECTORS), max_size=1))
    if draw(st.integers(0, 5)) == 0:
        return request(name, "gpu", 1, *chosen, allocationMode="All")
    return request(name, "gpu", draw(st.integers(1, 3)), *chosen)


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Up to three nodes with up to four devices each, some held, and a pod with a claim ``c``."""
    objects: list[Object] = [device_class()]
    for number in range(draw(st.integers(1, 3))):
        name = f"n{number}"
        objects.append(node(name, cpu=draw(st.sampled_from(("8", "8", "1")))))
        there = draw(st.integers(0, 4))
        count = 2 if draw(st.integers(0, 9)) == 0 else 1
        objects.append(slice_of(*(draw(devices(place)) for place in range(there)), node=name, count=count))
        for place in range(there):
            if draw(st.integers(0, 2)) == 0:
                objects.append(held(f"held-{name}-{place}", f"gpu-{place}", pool=name, by="user"))
    wanted = [draw(requests(name)) for name in "rs"[: draw(st.integers(1, 2))]]
    objects.append(claim("c", *wanted, constraints=draw(st.lists(st.sampled_from(CONSTRAINTS), max_size=1))))
    return objects


def allocator_says(objects: list[Any]) -> list[str]:
    """The nodes where the claim is allocated; none where that is an error."""
    try:
        return fits([one for one in objects if _is(one, "c")], [one for one in objects if not _is(one, "c")])
    except AllocationError:
        return []


def _is(one: Object, name: str) -> bool:
    return bool(one["kind"] == "ResourceClaim" and one["metadata"]["name"] == name)


def plain(state: ClusterState) -> list[Object]:
    return [
        {
            "kind": kind.__name__,
            "apiVersion": "v1" if kind.__name__ in ("Node", "Pod") else "resource.k8s.io/v1",
            **to_dict(one),
        }
        for kind, items in state.objects.items()
        for one in items.values()
    ]


@given(clusters())
@settings(max_examples=150, deadline=None)
def test_a_claim_fits_exactly_where_it_is_allocated(objects: list[Object]) -> None:
    answer = explain(read_dump(objects), "claim/c")
    expected = allocator_says(objects)
    assert sorted(answer.fits_on) == sorted(expected)
    assert answer.fits == bool(expected)
    assert bool(answer.causes) or answer.fits


@given(clusters())
@settings(max_examples=100, deadline=None)
def test_every_change_of_a_claim_makes_it_fit_in_the_allocators_eyes(objects: list[Object]) -> None:
    state = read_dump(objects)
    for change in explain(state, "claim/c").changes:
        changed = state.without(change.removed).including(change.set)
        said = allocator_says(plain(changed))
        assert set(said) >= set(change.fits_on), change.text


@given(clusters())
@settings(max_examples=100, deadline=None)
def test_no_cause_is_contradicted(objects: list[Object]) -> None:
    """What does not depend on holders does not go away with them; what they are blamed for does.

    (Whether the search meets a device on which a selector fails may depend on what is held.)
    """
    state = read_dump(objects)
    answer = explain(state, "claim/c")
    free = state.without([one for one in state.all(ResourceClaim) if one.metadata.name != "c"])
    without = explain(free, "claim/c")
    kinds = {cause.kind for cause in answer.causes}
    if kinds and kinds <= {"reach", "class", "selectors", "pool"}:
        assert not without.fits
    if "allocated" in kinds:
        assert "allocated" not in {cause.kind for cause in without.causes}


@given(clusters(), st.sampled_from(("1", "4")))
@settings(max_examples=100, deadline=None)
def test_a_pod_fits_where_its_claim_is_allocated_and_its_cpu_has_room(objects: list[Object], cpu: str) -> None:
    """Clusters where all devices of an incomplete pool are requested are left to the next test."""
    assume(not (_requests_all(objects) and _has_incomplete_pool(objects)))
    answer = explain(read_dump([*objects, pod("claim:c", cpu=cpu)]), "pod/p")
    room = {
        one["metadata"]["name"]
        for one in objects
        if one["kind"] == "Node" and int(one["status"]["allocatable"]["cpu"]) >= int(cpu)
    }
    roomy = [one for one in objects if one["kind"] != "Node" or one["metadata"]["name"] in room]
    assert set(answer.fits_on) == (set(allocator_says(roomy)) if room else set())


def test_a_pod_that_requests_all_devices_fits_nowhere_while_one_node_has_an_incomplete_pool() -> None:
    """Up to 1.37 the error on one node ends the attempt on all; the claim by itself is still allocated on ``n0``."""
    objects = [
        device_class(),
        node("n0"),
        slice_of(device("gpu-0"), node="n0"),
        node("n1"),
        slice_of(device("gpu-0"), node="n1", count=2),
        claim("c", request("r", "gpu", 1, allocationMode="All")),
    ]
    assert allocator_says(objects) == ["n0"]
    assert explain(read_dump([*objects, pod("claim:c", cpu="1")]), "pod/p").fits_on == ()


def _requests_all(objects: list[Object]) -> bool:
    return any(
        one["exactly"].get("allocationMode") == "All"
        for each in objects
        if _is(each, "c")
        for one in each["spec"]["devices"]["requests"]
    )


def _has_incomplete_pool(objects: list[Object]) -> bool:
    slices = [one["spec"] for one in objects if one["kind"] == "ResourceSlice"]
    return any(one["pool"]["resourceSliceCount"] > 1 for one in slices)


def test_no_further_node_is_proposed_where_the_search_fails_on_one_that_is_there() -> None:
    ready = device("gpu-0") | {"attributes": {"ready": {"bool": True}}}
    objects = [
        device_class(),
        node("n0"),
        slice_of(ready, node="n0"),
        held("taken", "gpu-0", pool="n0", by="user"),
        node("n1"),
        slice_of(device("gpu-0"), node="n1"),
        claim("c", request("r", "gpu", 1, f"{A}.ready")),
    ]
    assert allocator_says(objects) == []
    assert "add node" not in {change.kind for change in explain(read_dump(objects), "claim/c").changes}
    (mended,) = [one for one in objects if one["kind"] == "ResourceSlice" and one["spec"]["nodeName"] == "n1"]
    without = [one for one in objects if one is not mended and one["metadata"]["name"] != "n1"]
    assert "add node" in {change.kind for change in explain(read_dump(without), "claim/c").changes}
