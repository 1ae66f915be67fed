"""Allocation by the scheduler of 1.30 beside claims that cannot be decoded."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import encode, from_dict, replace
from cathedra.api.undecodable import identify
from cathedra.classic.resources import CLAIMS, SLICES
from cathedra.classic.scheduling.plugin import ClassicHints, StructuredClaims
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventResource
from cathedra.semantics.owners import controller_reference
from tests.running import run_with
from tests.unit.classic.test_structured_walk import DRIVER_NAME, slice_of
from tests.unit.classic.world import claim as bare_claim
from tests.unit.classic.world import pod as bare_pod
from tests.unit.inprocess import API, with_api

HANDLE = {
    "driverName": DRIVER_NAME,
    "structuredData": {"nodeName": "n1", "results": [{"namedResources": {"name": "small"}}]},
}


@pytest.mark.parametrize(
    ("fields", "free"),
    [
        ({"spec": 3, "status": {"allocation": {"resourceHandles": [HANDLE]}}}, ["big"]),
        ({"spec": 3, "status": {}}, ["small", "big"]),
        ({"spec": 3, "status": {"allocation": {"resourceHandles": [7]}}}, []),
        ({"status": "odd"}, []),
    ],
)
@run_with(with_api)
async def test_what_a_claim_may_hold_that_cannot_be_decoded_is_not_given_out(
    api: API, *, fields: dict[str, Any], free: list[str]
) -> None:
    claims = StructuredClaims(api.client, api.informers)
    api.informers.of(SLICES).store.put(slice_of("n1", small="8Gi", big="40Gi"))
    metadata = {"name": "odd", "namespace": "default", "uid": "odd"}
    what = identify("ResourceClaim", encode({"metadata": metadata, **fields}), ValueError("odd"))
    api.informers.of(CLAIMS).store.put_undecodable(what)
    assert [one.name for one in claims.stock().free("n1", DRIVER_NAME)] == free


# Which answers of drivers wake a pod (docs/spec/scheduling.md §18.2).

ALLOCATED = {"driverName": "d.example.com", "allocation": {"shareable": True}}


def pod() -> Pod:
    """A pod with the claims ``a`` and ``b``."""
    made = bare_pod(first="a", second="b")
    return replace(made, metadata=replace(made.metadata, uid="pod"))


def claim(name: str, status: dict[str, Any] | None = None) -> v1alpha2.ResourceClaim:
    """A claim whose UID is its name."""
    made = bare_claim(name)
    known = from_dict(v1alpha2.ResourceClaimStatus, status or {})
    return replace(made, metadata=replace(made.metadata, uid=name), status=known)


def context(*answers: str, selected: str = "", unsuitable: tuple[str, ...] = ()) -> v1alpha2.PodSchedulingContext:
    """The pod's negotiation, with an answer for each entry."""
    metadata = ObjectMeta(name="p", namespace="default", owner_references=(controller_reference(pod()),))
    statuses = tuple(
        v1alpha2.ResourceClaimSchedulingStatus(name=entry, unsuitable_nodes=unsuitable) for entry in answers
    )
    return v1alpha2.PodSchedulingContext(
        metadata=metadata,
        spec=v1alpha2.PodSchedulingContextSpec(selected_node=selected),
        status=v1alpha2.PodSchedulingContextStatus(resource_claims=statuses),
    )


def wakes(resource: EventResource, old: Any, new: Any, *claims: v1alpha2.ResourceClaim) -> bool:
    """Return True if the change wakes the pod, with these claims in the informer."""
    known = {one.metadata.name: one for one in claims or (claim("a"), claim("b"))}
    change = ClusterEvent(resource, Action.ADD if old is None else Action.UPDATE, old, new)
    asked = [
        one for one in ClassicHints(lambda _, name: known.get(name), "1.30").registrations() if one.matches(change)
    ]
    return any(one.hint is None or one.hint(pod(), change) for one in asked)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (None, context(), False),
        (None, context("first", "second"), True),
        (context(), context("first"), False),
        (context("first"), context("first", "second"), True),
        (context("first", "second"), context("first", "second", selected="n"), False),
        (context("first", "second", selected="n"), context("first", "second", selected="n", unsuitable=("n",)), True),
        (context("first", "second"), context("first", "second", unsuitable=("n",)), True),
    ],
)
def test_a_pod_is_tried_again_once_every_driver_has_answered(old: Any, new: Any, wanted: bool) -> None:
    assert wakes(EventResource.POD_SCHEDULING_CONTEXT, old, new) is wanted


def test_an_allocated_claim_needs_no_answer() -> None:
    known = (claim("a", ALLOCATED), claim("b"))
    assert wakes(EventResource.POD_SCHEDULING_CONTEXT, context(), context("second"), *known)


def test_the_negotiation_of_another_pod_wakes_nothing() -> None:
    foreign = replace(context("first", "second"), metadata=ObjectMeta(name="p", namespace="default"))
    assert not wakes(EventResource.POD_SCHEDULING_CONTEXT, None, foreign)


def test_nothing_helps_while_a_claim_is_missing() -> None:
    only = claim("a")
    assert not wakes(EventResource.POD_SCHEDULING_CONTEXT, None, context("first", "second"), only)
    assert not wakes(EventResource.RESOURCE_CLAIM, None, only, only)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (None, claim("a"), True),
        (claim("a"), claim("a"), False),
        (claim("a"), claim("a", ALLOCATED), True),
        (claim("z"), claim("z", ALLOCATED), False),
        (claim("z", ALLOCATED), claim("z"), True),
    ],
)
def test_claims_of_the_pod_and_what_others_give_back_wake_it(old: Any, new: Any, wanted: bool) -> None:
    assert wakes(EventResource.RESOURCE_CLAIM, old, new) is wanted


def test_the_names_of_its_own_claims_wake_a_pod_and_those_of_others_do_not() -> None:
    mine = pod()
    change = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_CLAIM, mine, mine)
    other = replace(mine, metadata=replace(mine.metadata, uid="other"))
    elsewhere = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_CLAIM, other, other)
    hints = ClassicHints(lambda _, name: claim(name), "1.30")
    (asked,) = [one for one in hints.registrations() if one.matches(change)]
    assert asked.hint is not None
    assert asked.hint(mine, change)
    assert not asked.hint(mine, elsewhere)


@pytest.mark.parametrize(
    "kind", [EventResource.RESOURCE_CLASS, EventResource.RESOURCE_SLICE, EventResource.RESOURCE_CLAIM_PARAMETERS]
)
def test_new_classes_slices_and_parameters_may_always_help(kind: EventResource) -> None:
    assert wakes(kind, None, object())
