"""Slices between v1 and v1beta1, where the properties of a device stand in ``basic``."""

from __future__ import annotations

import pytest

from cathedra.api import resource
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.kinds.resource.errorpaths import paths_of_release
from cathedra.kinds.resource.slices.conversion import (
    alpha_slice_from_hub,
    alpha_slice_to_hub,
    slice_from_hub,
    slice_to_hub,
)
from cathedra.kinds.resource.slices.validation import validate_slice
from tests.unit.kinds.objects import context, device, gates, resource_slice, texts


def test_properties_of_devices_move_into_basic_and_back() -> None:
    made = resource_slice(device(attributes={"m": {"string": "x"}}, capacity={"mem": {"value": "1Gi"}}))
    old = slice_from_hub(made)
    (one,) = old.spec.devices
    assert one.basic is not None
    assert set(one.basic.attributes) == {"m"}
    assert to_dict(slice_to_hub(old)) == to_dict(made)


def test_basic_is_always_shown_and_may_be_left_out() -> None:
    assert slice_from_hub(resource_slice(device())).spec.devices[0].basic is not None
    bare = from_dict(v1beta1.ResourceSlice, {"spec": {"devices": [{"name": "d"}]}})
    assert [one.name for one in slice_to_hub(bare).spec.devices] == ["d"]


def test_where_the_devices_are_is_empty_there_and_absent_here() -> None:
    everywhere = resource_slice(nodeName=None, allNodes=True)
    old = slice_from_hub(everywhere)
    assert (old.spec.node_name, old.spec.all_nodes) == ("", True)
    hub = slice_to_hub(old)
    assert (hub.spec.node_name, hub.spec.all_nodes) == (None, True)
    assert slice_to_hub(slice_from_hub(resource_slice())).spec.all_nodes is None


def test_capacities_are_bare_quantities_in_v1alpha3() -> None:
    devices = [{"name": "d", "basic": {"capacity": {"memory": "16Gi"}, "attributes": {"m": {"string": "x"}}}}]
    old = from_dict(v1alpha3.ResourceSlice, {"metadata": {"name": "s"}, "spec": {"devices": devices}})
    hub = alpha_slice_to_hub(old)
    assert to_dict(hub)["spec"]["devices"] == [
        {"name": "d", "capacity": {"memory": {"value": "16Gi"}}, "attributes": {"m": {"string": "x"}}}
    ]
    assert to_dict(alpha_slice_from_hub(hub)) == to_dict(old)


def test_a_device_without_properties_survives_v1alpha3() -> None:
    hub = resource_slice(device())
    assert to_dict(alpha_slice_to_hub(alpha_slice_from_hub(hub))) == to_dict(hub)


@pytest.mark.parametrize(("release", "wanted"), [("1.32", ["spec.devices[0].basic: Required value"]), ("1.33", [])])
def test_basic_had_to_be_there_until_132(release: str, wanted: list[str]) -> None:
    def problems(piece: resource.ResourceSlice) -> list[str]:
        return texts(paths_of_release(validate_slice(piece, None, context(release)), gates(release)))

    whole = slice_from_hub(resource_slice(device()))
    without = replace(whole, spec=replace(whole.spec, devices=(v1beta1.Device(name="d"),)))
    assert problems(slice_to_hub(whole)) == []
    assert problems(slice_to_hub(without)) == wanted
    assert slice_to_hub(without) == slice_to_hub(whole)
