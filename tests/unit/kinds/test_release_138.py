"""What 1.38 changes of objects and their rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.decoding import decode_json, decode_sound, decode_values
from cathedra.api.protobuf import decode_message, encode_message
from cathedra.api.resource import DeviceTaintRule, ResourceSlice
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.resource.definitions import device_definitions
from cathedra.kinds.resource.slices.disabled_fields import enabled_slice_spec
from cathedra.releases import FeatureGates

TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
PATH = "spec.devices[0].nodeSelector.nodeSelectorTerms"


def context(release: str) -> RequestContext:
    return RequestContext(gates=FeatureGates.for_release(release), now=0.0, api_version="resource.k8s.io/v1")


def strategy(plural: str, release: str) -> Any:
    definitions = device_definitions(FeatureGates.for_release(release))
    return next(one.strategy for one in definitions if one.plural == plural)


def slice_of(*terms: Any, device: str = "x") -> ResourceSlice:
    devices = [{"name": device, "nodeSelector": {"nodeSelectorTerms": terms}}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "perDeviceNodeSelection": True, "devices": devices}
    return from_dict(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})


@pytest.mark.parametrize(("release", "refused"), [("1.37", False), ("1.38", True)])
def test_the_node_selector_of_a_device_has_one_term(release: str, refused: bool) -> None:
    """kubernetes/kubernetes#141213."""
    found = strategy("resourceslices", release).validate_create(slice_of(TERM, TERM), context(release))
    assert [error.field for error in found] == ([PATH] if refused else [])
    assert all("must have exactly one node selector term" in str(error) for error in found)
    assert list(strategy("resourceslices", release).validate_create(slice_of(TERM), context(release))) == []


def test_stored_selectors_with_two_terms_stay_while_no_device_changes() -> None:
    stored, rules = slice_of(TERM, TERM), strategy("resourceslices", "1.38")
    pool = replace(stored.spec.pool, generation=2)
    renewed = replace(stored, spec=replace(stored.spec, pool=pool))
    assert list(rules.validate_update(renewed, stored, context("1.38"))) == []
    found = rules.validate_update(slice_of(TERM, TERM, device="y"), stored, context("1.38"))
    assert [error.field for error in found] == [PATH]


def rule_of(selector: Any) -> DeviceTaintRule:
    taint = {"key": "k", "effect": "NoSchedule"}
    given = {} if selector is None else {"deviceSelector": selector}
    return from_dict(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": {"taint": taint, **given}})


@pytest.mark.parametrize(
    ("release", "selector", "warned"),
    [("1.38", {}, True), ("1.38", None, False), ("1.38", {"driver": "d"}, False), ("1.37", {}, False)],
)
def test_an_empty_selector_of_a_taint_rule_warns(release: str, selector: Any, warned: bool) -> None:
    """kubernetes/kubernetes#141831."""
    text = "spec.deviceSelector: an empty selector matches every device from every driver in the cluster"
    rules = strategy("devicetaintrules", release)
    for old in (None, rule_of({"driver": "d"})):
        assert list(rules.warnings(rule_of(selector), old, context(release))) == ([text] if warned else [])


def test_the_group_is_not_served_in_v1beta1() -> None:
    definitions = device_definitions(FeatureGates.for_release("1.38"))
    claims = next(one for one in definitions if one.plural == "resourceclaims")
    assert [version.name for version in claims.versions] == ["v1", "v1beta2"]


def with_attribute(name: str, generation: int = 1) -> ResourceSlice:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": "x", "attributes": {name: {"int": 1}}}]
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": devices}
    return from_dict(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})


def test_names_with_more_than_one_slash_are_refused_unless_they_are_stored() -> None:
    """kubernetes/kubernetes#141644."""
    text = 'spec.devices[0].attributes: Invalid value: "a/b/c": must not contain more than one slash'
    rules, now = strategy("resourceslices", "1.38"), context("1.38")
    assert [str(error) for error in rules.validate_create(with_attribute("a/b/c"), now)] == [text]
    assert list(rules.validate_update(with_attribute("a/b/c", 2), with_attribute("a/b/c"), now)) == []
    assert list(strategy("resourceslices", "1.37").validate_create(with_attribute("a/b/c"), context("1.37"))) == []


@pytest.mark.parametrize(("release", "stored"), [("1.37", "1"), ("1.38", "1e21")])
def test_large_quantities_keep_their_magnitude_in_every_encoding(release: str, stored: str) -> None:
    """kubernetes/kubernetes#140459."""
    device = {"name": "x", "capacity": {"memory": {"value": "1000E"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": [device]}
    values = {"metadata": {"name": "s"}, "spec": spec}
    gvk = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")
    body = msgspec.json.encode(values)
    small = msgspec.json.decode(body.replace(b"1000E", b"1500E"))
    message = encode_message(from_dict(ResourceSlice, small)).replace(b"1500E", b"1000E")
    decoded = [
        decode_sound(ResourceSlice, gvk, body, release),
        decode_json(ResourceSlice, gvk, body, release).object,
        decode_values(ResourceSlice, gvk, values, release).object,
        decode_message(ResourceSlice, message, release),
    ]
    for one in decoded:
        assert one is not None
        assert one.spec.devices[0].capacity["memory"].value.text == stored


SHARED = {"sharedCounters": [{"name": "s", "counters": {"c": {"value": "5", "requestPolicy": {"default": "1"}}}}]}
TAKING = {"counterSet": "s", "counters": {"c": {"valueFrom": {"capacityName": "x"}}}}


def counting(**spec: Any) -> ResourceSlice:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    return from_dict(
        ResourceSlice,
        {"metadata": {"name": "s"}, "spec": {"driver": "d.example.com", "pool": pool, "nodeName": "n", **spec}},
    )


@pytest.mark.parametrize("is_open", [False, True])
def test_requests_take_of_counters_if_the_gate_is_on(is_open: bool) -> None:
    """KEP-5941. Without the gate the fields are dropped, and a device takes nothing."""
    gates = FeatureGates.for_release("1.38", {"DRASharedConsumableCapacity": is_open})
    sets = enabled_slice_spec(counting(**SHARED).spec, None, gates)
    policy = sets.shared_counters[0].counters["c"].request_policy
    assert (policy is not None) is is_open
    taking = enabled_slice_spec(counting(devices=[{"name": "x", "consumesCounters": [TAKING]}]).spec, None, gates)
    taken = to_dict(taking.devices[0].consumes_counters[0].counters["c"])
    assert taken == ({"valueFrom": {"capacityName": "x"}} if is_open else {"value": "0"})


def test_stored_references_to_requests_stay_without_the_gate() -> None:
    stored = counting(devices=[{"name": "x", "consumesCounters": [TAKING]}]).spec
    kept = enabled_slice_spec(stored, stored, FeatureGates.for_release("1.38"))
    assert to_dict(kept.devices[0].consumes_counters[0]) == TAKING


def test_a_counter_without_a_value_has_none_of_it_before() -> None:
    taking = {"counterSet": "s", "counters": {"c": {}}}
    spec = counting(devices=[{"name": "x", "consumesCounters": [taking]}]).spec
    enabled = enabled_slice_spec(spec, None, FeatureGates.for_release("1.37"))
    assert to_dict(enabled.devices[0].consumes_counters[0].counters["c"]) == {"value": "0"}
