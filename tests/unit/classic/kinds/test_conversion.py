"""Between v1alpha1 and v1alpha2: nothing is lost that both can say."""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha1 as v1alpha1
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import from_dict
from cathedra.classic.kinds import conversion

STATUS = {
    "driverName": "d.example.com",
    "allocation": {"resourceHandle": "x", "shareable": True},
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    "deallocationRequested": False,
}


def test_the_one_handle_is_that_of_the_driver_in_the_status() -> None:
    old = from_dict(v1alpha1.ResourceClaim, {"metadata": {"name": "c"}, "status": STATUS})
    new = conversion.claim_to_hub(old)
    assert new.status.allocation is not None
    assert new.status.allocation.resource_handles == (v1alpha2.ResourceHandle(driver_name="d.example.com", data="x"),)
    assert conversion.claim_from_hub(new) == old


def test_a_claim_without_allocation_stays_without() -> None:
    old = from_dict(v1alpha1.ResourceClaim, {"metadata": {"name": "c"}, "spec": {"resourceClassName": "k"}})
    assert conversion.claim_from_hub(conversion.claim_to_hub(old)) == old


def test_pod_scheduling_becomes_a_context_and_again_what_it_was() -> None:
    spec = {"selectedNode": "n", "potentialNodes": ["m", "n"]}
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["m"]}]}
    old = from_dict(v1alpha1.PodScheduling, {"metadata": {"name": "p"}, "spec": spec, "status": status})
    new = conversion.context_to_hub(old)
    assert isinstance(new, v1alpha2.PodSchedulingContext)
    assert new.spec.selected_node == "n"
    assert conversion.context_from_hub(new) == old


def test_classes_and_templates_are_the_same_in_both() -> None:
    driver = from_dict(v1alpha1.ResourceClass, {"metadata": {"name": "k"}, "driverName": "d.example.com"})
    assert conversion.class_from_hub(conversion.class_to_hub(driver)) == driver
    wanted = {"metadata": {"name": "t"}, "spec": {"spec": {"resourceClassName": "k"}}}
    template = from_dict(v1alpha1.ResourceClaimTemplate, wanted)
    assert conversion.template_from_hub(conversion.template_to_hub(template)) == template
