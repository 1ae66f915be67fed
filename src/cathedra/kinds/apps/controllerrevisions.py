"""ControllerRevisions: the states that stateful sets and daemon sets have had."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.apps.validation import IMMUTABLE, NEGATIVE
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules
from cathedra.semantics.owners import controller_of

CONTROLLER_REVISION_COLUMNS: Final = (
    NAME,
    Column("Controller", description="The workload whose state it is."),
    Column("Revision", description="The number of the state."),
    AGE,
)


def controller_revision_cells(revision: apps_v1.ControllerRevision, now: float) -> list[Any]:
    """Return the cells of a ControllerRevision."""
    created = age(revision.metadata.creation_timestamp, now)
    return [revision.metadata.name, _controller(revision), revision.revision, created]


def _controller(revision: apps_v1.ControllerRevision) -> str:
    """Return the owner as ``daemonset.apps/name``."""
    owner = controller_of(revision)
    if owner is None:
        return "<none>"
    group, _, _ = owner.api_version.rpartition("/")
    kind = f"{owner.kind}.{group}" if group else owner.kind
    return f"{kind.lower()}/{owner.name}"


def validate_revision(revision: apps_v1.ControllerRevision) -> ErrorList:
    """Return the errors of a new revision."""
    errors = ErrorList()
    if revision.data is None:
        errors.required(FieldPath("data"), "data is mandatory")
    if revision.revision < 0:
        errors.invalid(FieldPath("revision"), revision.revision, NEGATIVE)
    return errors


def validate_revision_update(new: apps_v1.ControllerRevision, old: apps_v1.ControllerRevision) -> ErrorList:
    """Return the errors of a changed revision: its data never change."""
    errors = validate_revision(new)
    if new.data != old.data:
        errors.invalid(FieldPath("data"), new.data, IMMUTABLE)
    return errors


def controller_revision_definition() -> ResourceDefinition[apps_v1.ControllerRevision]:
    """Return the definition of controllerrevisions."""
    return BuiltinKind(
        apps_v1.ControllerRevision,
        "controllerrevisions",
        namespaced=True,
        rules=ObjectRules(validate_revision, validate_revision_update),
        table=(CONTROLLER_REVISION_COLUMNS, controller_revision_cells),
    ).definition()
