"""Objects go to the hub version and come back as they were, in every served version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import resource_v1beta1
from cathedra.api.struct import from_dict, to_dict
from tests.unit.kinds.objects import definition_of

names = st.sampled_from(("a", "b", "gpu-0"))
classes = st.sampled_from(("gpu.example.com", "nic.example.com"))
maybe = st.booleans()
tolerations = st.lists(
    st.fixed_dictionaries(
        {"operator": st.sampled_from(("Exists", "Equal"))}, optional={"key": names, "effect": st.just("NoSchedule")}
    ),
    min_size=1,
    max_size=2,
)
asked = st.fixed_dictionaries(
    {"deviceClassName": classes, "allocationMode": st.sampled_from(("ExactCount", "All"))},
    optional={
        "count": st.integers(1, 9),
        "selectors": st.just([{"cel": {"expression": "true"}}]),
        "tolerations": tolerations,
        "capacity": st.just({"requests": {"memory": "1Gi"}}),
    },
)
exact = st.builds(lambda body, admin: body | admin, asked, st.sampled_from(({}, {"adminAccess": True})))
request = st.one_of(
    st.fixed_dictionaries({"name": names, "exactly": exact}),
    st.fixed_dictionaries(
        {
            "name": names,
            "firstAvailable": st.lists(st.builds(lambda n, a: {"name": n, **a}, names, asked), min_size=1, max_size=3),
        }
    ),
)
claims = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "c"}),
        "spec": st.fixed_dictionaries(
            {
                "devices": st.fixed_dictionaries(
                    {"requests": st.lists(request, max_size=3)},
                    optional={
                        "constraints": st.just([{"matchAttribute": "a/b", "requests": ["a"]}]),
                        "config": st.just([{"opaque": {"driver": "d", "parameters": {"x": 1}}}]),
                    },
                )
            }
        ),
        "status": st.just({}),
    }
)
devices = st.fixed_dictionaries(
    {"name": names},
    optional={
        "attributes": st.dictionaries(names, st.sampled_from(({"int": 1}, {"string": "x"}, {"bool": False}))),
        "capacity": st.dictionaries(names, st.just({"value": "1"})),
        "taints": st.just([{"key": "k", "effect": "NoSchedule", "timeAdded": "2024-01-01T00:00:00Z"}]),
        "allowMultipleAllocations": maybe,
        "consumesCounters": st.just([{"counterSet": "s", "counters": {"c": {"value": "1"}}}]),
    },
)
slices = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "s"}),
        "spec": st.fixed_dictionaries(
            {
                "driver": st.just("d"),
                "pool": st.just({"name": "p", "generation": 1, "resourceSliceCount": 1}),
                "devices": st.lists(devices, min_size=1, max_size=3),
            },
            optional={"nodeName": names, "allNodes": st.just(True)},
        ),
    }
)


def through(plural: str, version: str, obj: Any) -> Any:
    served = definition_of(plural).version(version)
    return served.to_hub(served.from_hub(obj))


@settings(max_examples=60, deadline=None)
@given(claims, st.sampled_from(("v1", "v1beta1", "v1beta2")))
def test_a_claim_comes_back_from_every_version_as_it_was(values: dict[str, Any], version: str) -> None:
    claim = from_dict(resource.ResourceClaim, values)
    assert to_dict(through("resourceclaims", version, claim)) == to_dict(claim)


@settings(max_examples=60, deadline=None)
@given(slices, st.sampled_from(("v1", "v1beta1", "v1beta2")))
def test_a_slice_comes_back_from_every_version_as_it_was(values: dict[str, Any], version: str) -> None:
    piece = from_dict(resource.ResourceSlice, values)
    assert to_dict(through("resourceslices", version, piece)) == to_dict(piece)


def test_v1beta1_has_requests_without_a_wrapper_and_devices_with_one() -> None:
    claim = from_dict(
        resource.ResourceClaim,
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 2}}]}}},
    )
    old = to_dict(definition_of("resourceclaims").version("v1beta1").from_hub(claim))
    assert old["spec"]["devices"]["requests"] == [{"name": "r", "deviceClassName": "c", "count": 2}]
    piece = from_dict(resource.ResourceSlice, {"spec": {"devices": [{"name": "d", "attributes": {"a": {"int": 1}}}]}})
    old = to_dict(definition_of("resourceslices").version("v1beta1").from_hub(piece))
    assert old["spec"]["devices"] == [{"name": "d", "basic": {"attributes": {"a": {"int": 1}}}}]


def test_a_device_without_properties_in_v1beta1_becomes_a_bare_one() -> None:
    old = from_dict(resource_v1beta1.ResourceSlice, {"spec": {"devices": [{"name": "d"}]}})
    hub = definition_of("resourceslices").version("v1beta1").to_hub(old)
    assert to_dict(hub)["spec"]["devices"] == [{"name": "d"}]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_a_taint_rule_comes_back_from_every_version(version: str) -> None:
    rule = from_dict(
        resource.DeviceTaintRule,
        {
            "metadata": {"name": "t"},
            "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoExecute"}},
        },
    )
    assert through("devicetaintrules", version, rule) == rule
