"""Namespaces: defaults and strategies."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import context, created, defaulted, definition_of, row, updated


def namespace(*finalizers: str, phase: str = "") -> Namespace:
    values = {"metadata": {"name": "n"}, "spec": {"finalizers": list(finalizers)}, "status": {"phase": phase}}
    return from_dict(Namespace, values)


def test_a_namespace_is_labelled_with_its_name() -> None:
    assert defaulted("namespaces", namespace()).metadata.labels == {"kubernetes.io/metadata.name": "n"}


def test_a_new_namespace_is_active_and_held_by_kubernetes() -> None:
    made, errors = created(definition_of("namespaces").strategy, namespace("x/y", phase="Terminating"), context())
    assert (errors, made.spec.finalizers, made.status.phase) == ([], ("x/y", "kubernetes"), "Active")
    assert row("namespaces", made)["Status"] == "Active"


def test_finalizers_change_through_their_sub_resource_alone() -> None:
    definition = definition_of("namespaces")
    stored = namespace("kubernetes", phase="Terminating")
    assert updated(definition.strategy, namespace(), stored, context())[0].spec.finalizers == ("kubernetes",)
    finalized = updated(definition.subresources["finalize"], namespace(), stored, context())[0]
    assert (finalized.spec.finalizers, finalized.status.phase) == ((), "Terminating")
    assert definition.subresources["finalize"].verbs == ("update",)


def test_a_finalizer_of_a_namespace_is_one_of_kubernetes_or_has_a_domain() -> None:
    definition, text = (
        definition_of("namespaces"),
        "name is neither a standard finalizer name nor is it fully qualified",
    )
    _, errors = created(definition.strategy, namespace("x"), context())
    assert list(map(str, errors)) == [f'spec.finalizers: Invalid value: "x": {text}']
    _, errors = updated(definition.subresources["finalize"], namespace("x/y", "x"), namespace("kubernetes"), context())
    assert list(map(str, errors)) == [f'spec.finalizers[1]: Invalid value: "x": {text}']
