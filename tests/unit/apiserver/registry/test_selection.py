"""Selection of objects for lists and watches."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.apiserver.registry.selection import Selection, single_name
from tests.unit.kinds.objects import definition_of


def pod(name: str = "p", node: str = "", **labels: str) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "labels": labels}
    return from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": node}})


def selects(made: Pod, *, labels: str = "", fields: str = "", name: str = "") -> bool:
    found = Selection.parse(definition_of("pods"), "ns", labels, fields, name)
    assert found.matches is not None
    return found.matches(made)


def test_without_selectors_everything_of_the_namespace_matches() -> None:
    found = Selection.parse(definition_of("pods"), "ns", "", "")
    assert (found.matches, found.filtered, found.name, found.namespace) == (None, False, "", "ns")


def test_labels_fields_and_name_have_to_agree() -> None:
    made = pod("p", "n1", app="a")
    assert selects(made, labels="app=a", fields="spec.nodeName=n1", name="p")
    assert not selects(made, labels="app=b", fields="spec.nodeName=n1")
    assert not selects(made, labels="app=a", fields="spec.nodeName!=n1")
    assert not selects(made, name="q")


@pytest.mark.parametrize(
    ("plural", "fields", "wanted"),
    [
        ("pods", "spec.image=x", "field label not supported: spec.image"),
        (
            "limitranges",
            "spec.x=y",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("pods", "metadata.name", "invalid selector"),
    ],
)
def test_a_field_that_cannot_be_selected_is_named(plural: str, fields: str, wanted: str) -> None:
    with pytest.raises(StatusError, match=wanted) as caught:
        Selection.parse(definition_of(plural), "", "", fields)
    assert caught.value.status.code == 400


def test_a_broken_label_selector_is_a_bad_request() -> None:
    with pytest.raises(StatusError) as caught:
        Selection.parse(definition_of("pods"), "", "a in (", "")
    assert caught.value.status.code == 400


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ("metadata.name=p", "p"),
        ("metadata.name!=p", ""),
        ("metadata.name=p,metadata.name=q", ""),
        ("spec.nodeName=n", ""),
        ("broken", ""),
        ("", ""),
    ],
)
def test_a_list_of_one_name_is_authorized_as_that_object(fields: str, wanted: str) -> None:
    assert single_name(fields) == wanted
