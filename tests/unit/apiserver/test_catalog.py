"""Served API versions: defaults of a release, and changes by the runtime configuration."""

from __future__ import annotations

import pytest

from cathedra.apiserver.catalog import UnknownAPIGroup, served_definitions
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

GATES = FeatureGates.for_release("1.37")


def versions(runtime_config: dict[str, bool], group: str = "resource.k8s.io") -> set[str]:
    served = served_definitions(all_definitions(GATES), GATES, runtime_config)
    return {version.name for definition in served if definition.group == group for version in definition.versions}


def test_versions_are_switched_one_by_one() -> None:
    assert "v1beta1" not in versions({})
    assert {"v1", "v1beta1"} <= versions({"resource.k8s.io/v1beta1": True})
    assert "v1" not in versions({"resource.k8s.io/v1": False})


def test_stages_are_switched_together_and_the_more_precise_name_wins() -> None:
    assert {"v1beta1", "v1beta2"} <= versions({"api/beta": True})
    assert "v1beta1" not in versions({"api/beta": True, "resource.k8s.io/v1beta1": False})
    assert {"v1beta1", "v1alpha3"} <= versions({"api/all": True})
    assert versions({"api/all": False, "api/ga": True}) == {"v1"}


@pytest.mark.parametrize("name", ["resource.example.com/v1", "resource.k8s.io.example/v1", "nothing/v1"])
def test_a_group_that_does_not_exist_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownAPIGroup, match=f"^unknown api groups {name}$"):
        versions({name: True, "resource.k8s.io/v9": True})
