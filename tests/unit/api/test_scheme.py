"""Structs, and names of kinds that have none."""

from __future__ import annotations

import importlib.util
from itertools import pairwise

import pytest

from cathedra.api import facts, resource
from cathedra.api.core import apps_v1
from cathedra.api.core.index import KINDS, MODULES
from cathedra.api.scheme import GroupVersionKind, UnknownKind, is_registered, kind_of, type_of
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from cathedra.releases.table import RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_each_version_that_a_release_serves_has_structs(release: str) -> None:
    for definition in all_definitions(FeatureGates.for_release(release)):
        for version in definition.versions:
            gvk = GroupVersionKind(definition.group, version.name, definition.kind)
            if is_registered(gvk):
                assert type_of(gvk).__name__ == definition.kind


def test_a_kind_of_a_version_that_is_never_served_has_a_name_and_no_struct() -> None:
    gvk = GroupVersionKind("apps", "v1beta1", "Deployment")
    assert is_registered(gvk)
    with pytest.raises(UnknownKind, match="no kind 'Deployment' is registered for version 'apps/v1beta1'"):
        type_of(gvk)


def test_an_unknown_name_is_not_registered() -> None:
    assert not is_registered(GroupVersionKind("apps", "v1", "Toaster"))
    with pytest.raises(UnknownKind, match="Toaster"):
        type_of(GroupVersionKind("apps", "v1", "Toaster"))
    with pytest.raises(UnknownKind, match="is no kind of its own"):
        kind_of(apps_v1.DeploymentSpec)


def test_v1beta2_of_the_device_kinds_is_v1() -> None:
    claim = type_of(GroupVersionKind("resource.k8s.io", "v1beta2", "ResourceClaim"))
    assert claim is resource.ResourceClaim
    assert kind_of(claim) == GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")
    wire = [
        {
            name: {field: fact["pb"] for field, fact in described.get("fields", {}).items() if "pb" in fact}
            for name, described in facts.load()[package].items()
            if name != "DeviceTaintSelector"  # v1 alone has the fields that 1.33 and 1.34 knew
        }
        for package in ("resource/v1", "resource/v1beta2")
    ]
    assert all(one.items() <= other.items() for one, other in pairwise(reversed(wire)))


def test_each_module_of_structs_is_there_and_no_other() -> None:
    assert all(importlib.util.find_spec(module) for module in MODULES.values())
    assert set(MODULES) <= set(KINDS)
