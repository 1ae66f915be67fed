"""Kubernetes' names for the types behind the JSON."""

from __future__ import annotations

import pytest

from cathedra.api.decoding.gotypes import GoType, ValueForm, go_type_of
from cathedra.api.scheme import GroupVersionKind


def at(path: str, kind: str = "Pod", api_version: str = "v1", release: str = "1.37") -> GoType:
    found = go_type_of(GroupVersionKind.parse(api_version, kind), release)
    for step in path.split("."):
        if step == "[]":
            assert found.element is not None
            found = found.element
        else:
            found = found.fields[step]
    return found


@pytest.mark.parametrize(
    ("path", "form", "name"),
    [
        ("spec", ValueForm.STRUCT, "v1.PodSpec"),
        ("spec.containers", ValueForm.LIST, "[]v1.Container"),
        ("spec.priority", ValueForm.INTEGER, "int32"),
        ("spec.terminationGracePeriodSeconds", ValueForm.INTEGER, "int64"),
        ("spec.hostNetwork", ValueForm.BOOL, "bool"),
        ("metadata.labels", ValueForm.MAP, "map[string]string"),
        ("metadata.creationTimestamp", ValueForm.TIME, "v1.Time"),
        ("metadata.uid", ValueForm.STRING, "types.UID"),
        ("spec.containers.[].resources.limits.[]", ValueForm.QUANTITY, "resource.Quantity"),
        ("spec.containers.[].livenessProbe.httpGet.port", ValueForm.INT_OR_STRING, "intstr.IntOrString"),
    ],
)
def test_fields_are_read_and_named_as_in_go(path: str, form: ValueForm, name: str) -> None:
    found = at(path)
    assert (found.form, found.name) == (form, name)


def test_fields_of_an_embedded_struct_know_where_they_come_from() -> None:
    assert at("spec.containers.[].livenessProbe").embedded["exec"] == "ProbeHandler"


def test_a_field_is_known_from_its_release_on() -> None:
    assert "skipNodeOperations" in at("spec", "ResourceSlice", "resource.k8s.io/v1").fields
    assert "skipNodeOperations" not in at("spec", "ResourceSlice", "resource.k8s.io/v1", "1.34").fields


def test_bytes_are_no_list_of_numbers() -> None:
    assert at("data.[]", "Secret").form is ValueForm.BYTES


def test_a_kind_without_facts_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        go_type_of(GroupVersionKind.parse("v1", "Nothing"))
