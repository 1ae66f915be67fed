"""A write as plugins see it."""

from __future__ import annotations

from cathedra.api.core.core_v1 import ConfigMap
from tests.unit.apiserver.admission.writes import write


def test_what_the_call_says_is_read_from_the_call() -> None:
    request = write("pods", namespace="n", name="p", subresource="status", dry_run=True, field_manager="me")
    assert (request.namespace, request.name, request.subresource) == ("n", "p", "status")
    assert (request.dry_run, request.field_manager, request.user.name) == (True, "me", "ada")
    assert request.definition is request.call.definition
    assert request.version is request.call.version


def test_warnings_and_audit_annotations_reach_the_call() -> None:
    request = write("pods")
    request.warnings.append("careful")
    request.annotations["a"] = "b"
    assert (request.call.warnings, request.call.annotations) == (["careful"], {"a": "b"})


def test_a_changed_request_keeps_what_plugins_remember() -> None:
    request = write("configmaps", new=ConfigMap())
    request.memory["plugin"] = 1
    changed = request.but(object=ConfigMap(data={"a": "b"}), again=True)
    assert (changed.object.data, changed.again) == ({"a": "b"}, True)
    assert changed.memory is request.memory
    assert (request.object.data, request.again) == ({}, False)
