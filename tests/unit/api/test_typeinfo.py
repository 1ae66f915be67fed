"""Facts about the built-in types, and the types of Go names."""

from __future__ import annotations

import pytest

from cathedra.api import facts
from cathedra.api.core import core_v1, resource_v1beta1
from cathedra.api.core.index import KINDS, MODULES
from cathedra.api.scheme import GroupVersionKind, type_of
from cathedra.api.struct import KubeStruct, json_names
from cathedra.api.typeinfo import info_of, locate, package_of, type_info


def test_every_kind_has_the_fields_of_its_struct() -> None:
    for api_version in MODULES:
        for kind in KINDS[api_version]:
            struct = type_of(GroupVersionKind.parse(api_version, kind))
            info = info_of(struct)
            assert info is not None
            assert set(info.fields) == set(json_names(struct).values()), (api_version, kind)


def test_embedded_structs_are_declared_once_and_spread_in_json() -> None:
    volume = type_info("core/v1", "Volume")
    assert [one.name for one in volume.declared if one.embedded] == ["VolumeSource"]
    assert {"name", "emptyDir", "configMap"} <= set(volume.fields)


def test_merge_semantics_are_part_of_a_field() -> None:
    containers = type_info("core/v1", "PodSpec").fields["containers"]
    assert (containers.patch_strategy, containers.patch_merge_key) == ("merge", "name")
    assert (containers.list_type, containers.list_map_keys) == ("map", ("name",))


@pytest.mark.parametrize(
    ("package", "go", "found"),
    [
        ("core/v1", "*metav1.ObjectMeta", "meta/v1"),
        ("apps/v1", "v1.PodTemplateSpec", "core/v1"),
        ("admissionregistration/v1beta1", "RuleWithOperations", "admissionregistration/v1"),
        ("core/v1", "Pod", "core/v1"),
        ("core/v1", "runtime.RawExtension", None),
        ("core/v1", "NoSuchType", None),
    ],
)
def test_go_names_are_located(package: str, go: str, found: str | None) -> None:
    info = locate(package, go)
    assert (info.package if info is not None else None) == found


def test_a_release_may_not_have_a_field_yet() -> None:
    field = type_info("resource/v1", "ExactDeviceRequest").fields["derivedAttributes"]
    assert (field.is_known("1.36"), field.is_known("1.37")) == (False, True)


def test_structs_made_at_run_time_have_no_description() -> None:
    made = type("Thing", (KubeStruct,), {"__module__": "cathedra.somewhere"}, frozen=True)
    assert info_of(made) is None
    assert info_of(core_v1.Pod) is type_info("core/v1", "Pod")
    assert info_of(resource_v1beta1.Device) is type_info("resource/v1beta1", "Device")


def test_api_versions_have_packages() -> None:
    assert package_of("v1") == "core/v1"
    assert package_of("resource.k8s.io/v1") == "resource/v1"
    with pytest.raises(KeyError):
        package_of("nothing.example.com/v1")
    assert all(package_of(facts.group_version(package)) == package for package in facts.load() if package != "runtime")
