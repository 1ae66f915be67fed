"""Namespaces: active from the start, held by Kubernetes' finalizer until they are empty."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, dns_label, label_key
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import ALL_VERBS, Column, RequestContext, ResourceDefinition, Strategy
from cathedra.kinds.deletion import DeletionRules
from cathedra.kinds.metadata import check_finalizer
from cathedra.kinds.strategies import SpecStrategy

NAMESPACE_COLUMNS: Final = (NAME, Column("Status", description="Active or Terminating."), AGE)


def default_namespace(namespace: core_v1.Namespace) -> core_v1.Namespace:
    """Return the object with its defaults: a namespace labelled with its own name."""
    name = namespace.metadata.name
    status = replace(namespace.status, **absent(namespace.status, phase="Active"))
    if not name:
        return replace(namespace, status=status)
    labels = {**namespace.metadata.labels, "kubernetes.io/metadata.name": name}
    return replace(namespace, metadata=replace(namespace.metadata, labels=labels), status=status)


class NamespaceStrategy(SpecStrategy[core_v1.Namespace]):
    """Namespaces begin active and hold Kubernetes' finalizer until they are empty."""

    def prepare_create(self, obj: core_v1.Namespace, context: RequestContext) -> core_v1.Namespace:
        """Add the finalizer and set the phase."""
        finalizers = (
            obj.spec.finalizers if "kubernetes" in obj.spec.finalizers else (*obj.spec.finalizers, "kubernetes")
        )
        return replace(
            obj, spec=replace(obj.spec, finalizers=finalizers), status=core_v1.NamespaceStatus(phase="Active")
        )

    def validate_create(self, obj: core_v1.Namespace, context: RequestContext) -> ErrorList:
        """Check the finalizers. Kubernetes reports them without their position."""
        errors = super().validate_create(obj, context)
        for finalizer in obj.spec.finalizers:
            _check_finalizer(errors, _FINALIZERS, finalizer)
        return errors

    def prepare_update(
        self, new: core_v1.Namespace, old: core_v1.Namespace, context: RequestContext
    ) -> core_v1.Namespace:
        """Keep the finalizers, which change through ``finalize`` only."""
        return replace(new, spec=replace(new.spec, finalizers=old.spec.finalizers), status=old.status)


class FinalizeStrategy(Strategy[core_v1.Namespace]):
    """The sub-resource ``finalize``, which changes ``spec.finalizers`` and nothing else.

    A namespace that is being deleted is removed when none is left (docs/spec/apimachinery.md §12).
    """

    verbs = ("update",)

    def prepare_update(
        self, new: core_v1.Namespace, old: core_v1.Namespace, context: RequestContext
    ) -> core_v1.Namespace:
        """Return the stored namespace with the new finalizers."""
        return replace(old, spec=replace(old.spec, finalizers=new.spec.finalizers))

    def validate_update(self, new: core_v1.Namespace, old: core_v1.Namespace, context: RequestContext) -> ErrorList:
        """Return the errors of the finalizers."""
        errors = ErrorList()
        for position, finalizer in enumerate(new.spec.finalizers):
            _check_finalizer(errors, _FINALIZERS.index(position), finalizer)
        return errors


_FINALIZERS: Final = FieldPath("spec").child("finalizers")


def _check_finalizer(errors: ErrorList, path: FieldPath, finalizer: str) -> None:
    check(errors, path, finalizer, label_key)
    check_finalizer(errors, path, finalizer)


class NamespaceDeletion(DeletionRules[core_v1.Namespace]):
    """A namespace is Terminating until its own finalizers, in the spec, are gone."""

    permanent = frozenset({"default", "kube-system", "kube-public"})

    def is_held(self, obj: core_v1.Namespace) -> bool:
        """Return True if finalizers are left in the spec."""
        return bool(obj.spec.finalizers)

    def mark(self, obj: core_v1.Namespace) -> core_v1.Namespace:
        """Mark the namespace as terminating, without a grace period."""
        metadata = replace(obj.metadata, deletion_grace_period_seconds=None)
        return replace(obj, metadata=metadata, status=replace(obj.status, phase="Terminating"))


def namespace_definition() -> ResourceDefinition[core_v1.Namespace]:
    """Return the definition of namespaces."""
    return BuiltinKind(
        core_v1.Namespace,
        "namespaces",
        namespaced=False,
        default=default_namespace,
        strategy=NamespaceStrategy(default_namespace),
        table=(NAMESPACE_COLUMNS, namespace_cells),
        short_names=("ns",),
        subresources={"finalize": FinalizeStrategy()},
        deletion=NamespaceDeletion(),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        name_rule=dns_label,
        field_selectors={"status.phase": lambda namespace: namespace.status.phase},
    ).definition()


def namespace_cells(namespace: core_v1.Namespace, now: float) -> list[Any]:
    """Return the cells of a Namespace."""
    return [namespace.metadata.name, namespace.status.phase, age(namespace.metadata.creation_timestamp, now)]
