"""ReplicationControllers, the predecessors of replica sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.disabled_fields import enabled_template
from cathedra.kinds.core.pods.templates import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    container_cells,
    labels_text,
    with_template_labels,
)
from cathedra.kinds.core.pods.validation import validate_pod_template
from cathedra.kinds.core.pods.warnings import named_workload_warnings
from cathedra.kinds.declarative import FieldTags, TypeTags, minimum
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.deletion import DeletionRules
from cathedra.kinds.strategies import ObjectRules

_COUNT: Final = FieldTags(checks=(minimum(0),))
REPLICATION_CONTROLLER_TAGS: Final = TypeTags(
    {"spec": FieldTags(of=TypeTags({"replicas": _COUNT, "minReadySeconds": _COUNT}))}
)
REPLICATION_CONTROLLER_COLUMNS: Final = (
    NAME,
    Column("Desired", type="integer", description="Pods that are wanted."),
    Column("Current", type="integer", description="Pods that are there."),
    Column("Ready", type="integer", description="Pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def default_replication_controller(replicas: core_v1.ReplicationController) -> core_v1.ReplicationController:
    """Return the object with its defaults: a replication controller of one, selecting its template's labels."""
    spec = replicas.spec
    changes: dict[str, Any] = absent(spec, replicas=1)
    if spec.template is not None:
        changes["template"] = default_pod_template(spec.template)
        if not spec.selector:
            changes["selector"] = dict(spec.template.metadata.labels)
    filled = replace(replicas, spec=replace(spec, **changes))
    return with_template_labels(filled, spec.template) if spec.template is not None else filled


def validate_replication_controller(controller: core_v1.ReplicationController) -> ErrorList:
    """Require that the template has the labels that the selector wants, and its pods never end by themselves."""
    errors, spec = ErrorList(), controller.spec
    path = FieldPath("spec").child("template")
    if not spec.selector:
        errors.required("spec.selector")
    template = spec.template
    if template is None:
        errors.required(path)
        return errors
    labels = template.metadata.labels
    if spec.selector and any(labels.get(name) != value for name, value in spec.selector.items()):
        where = path.child("metadata", "labels")
        errors.invalid(where, labels or None, "`selector` does not match template `labels`")
    errors.extend(validate_pod_template(template, path))
    if template.spec.restart_policy != "Always":
        errors.not_supported(path.child("spec", "restartPolicy"), template.spec.restart_policy, ("Always",))
    if template.spec.active_deadline_seconds is not None:
        errors.invalid(
            path.child("spec", "activeDeadlineSeconds"), template.spec.active_deadline_seconds, "must not be specified"
        )
    return errors


def validate_replication_controller_status(
    new: core_v1.ReplicationController, old: core_v1.ReplicationController
) -> ErrorList:
    """Require that counts are not negative, and none is larger than the one that it is a part of."""
    errors, status = ErrorList(), new.status
    path = FieldPath("status")
    for name, value in (
        ("replicas", status.replicas),
        ("fullyLabeledReplicas", status.fully_labeled_replicas),
        ("readyReplicas", status.ready_replicas),
        ("availableReplicas", status.available_replicas),
        ("observedGeneration", status.observed_generation),
    ):
        if value < 0:
            errors.invalid(path.child(name), value, "must be greater than or equal to 0")
    for name, value, limit, what in (
        ("fullyLabeledReplicas", status.fully_labeled_replicas, status.replicas, "status.replicas"),
        ("readyReplicas", status.ready_replicas, status.replicas, "status.replicas"),
        ("availableReplicas", status.available_replicas, status.replicas, "status.replicas"),
        ("availableReplicas", status.available_replicas, status.ready_replicas, "readyReplicas"),
    ):
        if value > limit:
            errors.invalid(path.child(name), value, f"cannot be greater than {what}")
    return errors


def replication_controller_cells(controller: core_v1.ReplicationController, now: float) -> list[Any]:
    """Return the cells of a ReplicationController."""
    spec, status = controller.spec, controller.status
    return [
        controller.metadata.name,
        spec.replicas or 0,
        status.replicas,
        status.ready_replicas,
        age(controller.metadata.creation_timestamp, now),
        *(container_cells(spec.template) if spec.template is not None else ("", "")),
        labels_text(spec.selector),
    ]


class ReplicationControllerDeletion(DeletionRules[core_v1.ReplicationController]):
    """Pods of a deleted replication controller stay by default, as the first version of the API had it."""

    orphans_dependents = True


def replication_controller_definition() -> ResourceDefinition[core_v1.ReplicationController]:
    """Return the definition of replicationcontrollers."""
    return BuiltinKind(
        core_v1.ReplicationController,
        "replicationcontrollers",
        namespaced=True,
        drop_disabled=enabled_template,
        default=default_replication_controller,
        rules=ObjectRules(
            validate_replication_controller,
            lambda new, old: validate_replication_controller(new),
            warnings=_warnings,
            tags=REPLICATION_CONTROLLER_TAGS,
        ),
        status_rules=validate_replication_controller_status,
        counts_generation=True,
        table=(REPLICATION_CONTROLLER_COLUMNS, replication_controller_cells),
        scalable=True,
        deletion=ReplicationControllerDeletion(),
        short_names=("rc",),
        categories=("all",),
        field_selectors={"status.replicas": lambda replicas: str(replicas.status.replicas)},
    ).definition()


def _warnings(new: core_v1.ReplicationController, old: core_v1.ReplicationController | None) -> Iterator[str]:
    # On updates Kubernetes examines the old template (rcStrategy.WarningsOnUpdate).
    shown = new if old is None or old.spec is None else replace(new, spec=replace(new.spec, template=old.spec.template))
    if shown.spec is not None and shown.spec.template is not None:
        yield from named_workload_warnings(shown, old)
