"""The answer as Kubernetes writes it into a claim's status."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import Allocation, FatalError
from cathedra.api.resource import AllocationResult
from tests.unit.allocation.building import World, claim, device, exactly, first_available, resource_slice


def result(world: World, *requests: dict[str, Any], **more: Any) -> AllocationResult:
    outcome = world.allocate(claim(*requests, **more))
    assert isinstance(outcome, Allocation)
    return outcome.results[0]


def test_a_device_of_the_node_pins_the_claim_to_it_by_name() -> None:
    selector = result(World([resource_slice("a")]), exactly("r")).node_selector
    assert selector is not None
    (field,) = selector.node_selector_terms[0].match_fields
    assert (field.key, field.operator, field.values) == ("metadata.name", "In", ("alder",))


def test_devices_of_all_nodes_pin_the_claim_to_none() -> None:
    assert result(World([resource_slice("a", node=None, allNodes=True)]), exactly("r")).node_selector is None


def selecting(terms: int = 1) -> dict[str, Any]:
    """A selector that fits every node without the label «zone»."""
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}] * terms}


def test_selectors_of_several_slices_are_joined_without_repetition() -> None:
    slices = [
        resource_slice("a", name="s1", pool="p", node=None, nodeSelector=selecting()),
        resource_slice("b", name="s2", pool="q", node=None, nodeSelector=selecting()),
    ]
    selector = result(World(slices), exactly("r", 2)).node_selector
    assert selector is not None
    assert [one.key for one in selector.node_selector_terms[0].match_expressions] == ["zone"]


def test_a_selector_of_several_terms_cannot_be_written_down() -> None:
    world = World([resource_slice("a", node=None, nodeSelector=selecting(2))])
    with pytest.raises(FatalError, match=r"unsupported ResourceSlice\.NodeSelector with 2 terms"):
        result(world, exactly("r"))


def test_results_name_the_alternative_that_was_chosen() -> None:
    found = result(World([resource_slice("a")]), first_available("r", big=exactly("x", 2), small=exactly("y")))
    assert [one.request for one in found.devices.results] == ["r/small"]


def test_a_share_has_an_id_and_says_what_it_takes() -> None:
    world = World([resource_slice(device("a", shareable=True, capacity={"mem": 5}))])
    (share,) = result(world, exactly("r", 1, capacity={"mem": 2})).devices.results
    assert share.share_id
    assert {name: str(amount) for name, amount in share.consumed_capacity.items()} == {"mem": "2"}


def test_configuration_of_the_claim_is_listed_for_the_requests_it_names() -> None:
    def config(*requests: str) -> dict[str, Any]:
        return {"requests": list(requests), "opaque": {"driver": "drv", "parameters": {"a": 1}}}

    world = World([resource_slice("a", "b")])
    found = result(world, exactly("r"), exactly("s"), config=[config("r"), config(), config("gone")])
    assert [(one.source, one.requests) for one in found.devices.config] == [("FromClaim", ("r",)), ("FromClaim", ())]
