"""Between v1alpha3 of 1.31 and what is inside: nothing is lost that the release can say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.struct import from_dict, to_dict
from cathedra.classic.controlplane.kinds import conversion

SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}


@given(
    controller=st.sampled_from(["", "d.example.com"]),
    allocated=st.booleans(),
    requested=st.booleans(),
    count=st.integers(0, 3),
    admin=st.sampled_from([None, True]),
)
def test_a_claim_comes_back_as_it_was(
    controller: str, allocated: bool, requested: bool, count: int, admin: bool | None
) -> None:
    request = {"name": "r", "deviceClassName": "k", "count": count, "adminAccess": admin}
    status: dict[str, object] = {"deallocationRequested": requested}
    if allocated:
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "e"}
        status["allocation"] = {
            "devices": {"results": [result]},
            "nodeSelector": SELECTOR,
            "controller": controller,
        }
        status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    spec = {"controller": controller, "devices": {"requests": [request]}}
    old = from_dict(v1alpha3.ResourceClaim, {"metadata": {"name": "c"}, "spec": spec, "status": status})
    assert conversion.claim_from_hub(conversion.claim_to_hub(old)) == old


def test_no_admin_access_was_the_same_as_nothing_said() -> None:
    request = {"name": "r", "deviceClassName": "k", "adminAccess": False}
    old = from_dict(v1alpha3.ResourceClaim, {"spec": {"devices": {"requests": [request]}}})
    new = to_dict(conversion.claim_from_hub(conversion.claim_to_hub(old)))
    assert "adminAccess" not in new["spec"]["devices"]["requests"][0]


def test_templates_classes_and_contexts_come_back_too() -> None:
    spec = {"controller": "d.example.com", "devices": {"requests": [{"name": "r", "deviceClassName": "k"}]}}
    template = from_dict(v1alpha3.ResourceClaimTemplate, {"metadata": {"name": "t"}, "spec": {"spec": spec}})
    assert conversion.template_from_hub(conversion.template_to_hub(template)) == template
    device_class = from_dict(v1alpha3.DeviceClass, {"metadata": {"name": "k"}, "spec": {"suitableNodes": SELECTOR}})
    assert conversion.class_from_hub(conversion.class_to_hub(device_class)) == device_class
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["n"]}]}
    context = from_dict(
        v1alpha3.PodSchedulingContext, {"metadata": {"name": "p"}, "spec": {"selectedNode": "n"}, "status": status}
    )
    assert conversion.context_from_hub(conversion.context_to_hub(context)) == context
