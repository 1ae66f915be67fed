"""Definitions of custom resources, as a kind."""

from __future__ import annotations

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.machinery.customresources import custom_resource_definition
from tests.unit.kinds.objects import context, created, row, updated


def test_a_definition_counts_its_changes_and_is_created_without_status() -> None:
    strategy = custom_resource_definition().strategy
    values = {"spec": {"group": "example.com"}, "status": {"storedVersions": ["v1"]}}
    old, errors = created(strategy, from_dict(CustomResourceDefinition, values), context())
    assert errors == []
    assert (old.status.stored_versions, old.metadata.generation) == ((), 1)
    new = replace(old, spec=replace(old.spec, group="example.org"))
    assert updated(strategy, new, old, context())[0].metadata.generation == 2
    assert updated(strategy, old, old, context())[0].metadata.generation == 1


def test_a_definition_is_found_by_both_its_short_names() -> None:
    made = custom_resource_definition()
    assert (made.short_names, made.namespaced, made.group) == (("crd", "crds"), False, "apiextensions.k8s.io")


def test_a_row_shows_when_the_definition_was_created() -> None:
    values = {"metadata": {"name": "things.example.com", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    found = row("customresourcedefinitions", from_dict(CustomResourceDefinition, values))
    assert found == {"Name": "things.example.com", "Created At": "2026-01-01T00:00:00Z"}
