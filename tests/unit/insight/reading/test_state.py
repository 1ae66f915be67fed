"""Objects of older releases in a cluster's state."""

from __future__ import annotations

from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.insight.reading.dumps import read_object
from cathedra.insight.reading.state import ClusterState

POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
SLICE = from_dict(
    ResourceSlice,
    {
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": POOL, "nodeName": "n", "devices": [{"name": "a"}, {"name": "b"}]},
    },
)
NOTHING = {"selectors": [{"cel": {"expression": "false"}}]}
CLASS = from_dict(DeviceClass, {"metadata": {"name": "none"}, "spec": NOTHING})


def rule(name: str, **selector: object) -> DeviceTaintRule:
    """A rule as a cluster of 1.34 shows it."""
    spec = {"deviceSelector": selector, "taint": {"key": name, "effect": "NoSchedule"}}
    kind = {"kind": "DeviceTaintRule", "apiVersion": "resource.k8s.io/v1alpha3"}
    read = read_object({**kind, "metadata": {"name": name}, "spec": spec})
    assert read is not None
    assert isinstance(read.object, DeviceTaintRule)
    return read.object


def test_rules_of_1_34_taint_what_their_class_and_expressions_choose() -> None:
    of_class, all_of_them = rule("of-class", deviceClassName="none"), [{"cel": {"expression": "true"}}]
    by_expression, named = rule("by-expression", selectors=all_of_them), rule("named", device="b")
    state = ClusterState.of([SLICE, CLASS, of_class, by_expression, named])
    (tainted,) = state.all(ResourceSlice)
    assert [[taint.key for taint in device.taints] for device in tainted.spec.devices] == [["by-expression"]] * 2
    assert [left.spec for left in state.all(DeviceTaintRule)] == [named.spec]


def test_without_such_rules_slices_are_what_they_were() -> None:
    named = rule("named", device="b")
    state = ClusterState.of([SLICE, CLASS, named])
    assert state.all(ResourceSlice)[0].metadata.name == "s"
    assert state.all(DeviceTaintRule)[0].spec == named.spec
