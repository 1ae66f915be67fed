"""Parts that depend on the generation of a release."""

from __future__ import annotations

import pytest

from cathedra.cluster.parts.generations import generation_of, how_to_enable_devices
from cathedra.releases import FeatureGates


@pytest.mark.parametrize(
    ("release", "flags"),
    [
        ("1.27", "--feature-gates DynamicResourceAllocation=true --runtime-config resource.k8s.io/v1alpha2=true"),
        ("1.33", "--feature-gates DynamicResourceAllocation=true --runtime-config resource.k8s.io/v1beta1=true"),
        ("1.34", "--runtime-config resource.k8s.io/v1=true"),
    ],
)
def test_a_release_says_what_switches_devices_on(release: str, flags: str) -> None:
    said = how_to_enable_devices(FeatureGates.for_release(release))
    assert said == f"Dynamic Resource Allocation is off in {release} without {flags}"


def test_drivers_allocate_until_130_and_the_scheduler_since() -> None:
    assert not generation_of(FeatureGates.for_release("1.30")).has_example_driver
    assert generation_of(FeatureGates.for_release("1.32")).has_example_driver
