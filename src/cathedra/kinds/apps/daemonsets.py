"""DaemonSets: one pod on each node."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.apps.validation import (
    is_above_hundred_percent,
    is_zero,
    validate_collisions,
    validate_counts,
    validate_int_or_percent,
    validate_not_negative,
    validate_workload_selector,
    validate_workload_template,
    with_immutable_selector,
)
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.disabled_fields import enabled_template
from cathedra.kinds.core.pods.templates import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    container_cells,
    selector_text,
)
from cathedra.kinds.core.pods.warnings import workload_warnings
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import GenerationStrategy, ObjectRules, StatusStrategy

_SPEC: Final = FieldPath("spec")
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
DAEMONSET_COLUMNS: Final = (
    NAME,
    Column("Desired", type="integer", description="Nodes that should run a pod."),
    Column("Current", type="integer", description="Nodes that run one."),
    Column("Ready", type="integer", description="Nodes whose pod is ready."),
    Column("Up-to-date", type="integer", description="Nodes with a pod of the newest template."),
    Column("Available", type="integer", description="Nodes whose pod has been ready long enough."),
    Column("Node Selector", description="Which nodes."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def default_daemonset(daemon: apps_v1.DaemonSet) -> apps_v1.DaemonSet:
    """Return the object with its defaults: a daemon set that rolls one node at a time."""
    spec = daemon.spec
    strategy = spec.update_strategy
    if strategy.type in ("", "RollingUpdate"):
        rolling = strategy.rolling_update or apps_v1.RollingUpdateDaemonSet()
        rolling = replace(rolling, **absent(rolling, max_unavailable=1, max_surge=0))
        strategy = replace(strategy, type="RollingUpdate", rolling_update=rolling)
    filled = replace(
        spec,
        template=default_pod_template(spec.template),
        update_strategy=strategy,
        **absent(spec, revision_history_limit=10),
    )
    annotations = daemon.metadata.annotations
    if TEMPLATE_GENERATION not in annotations:
        # Conversion from the internal type always writes the annotation, so that its writer owns it.
        annotations = {**annotations, TEMPLATE_GENERATION: "0"}
    return replace(daemon, spec=filled, metadata=replace(daemon.metadata, annotations=annotations))


def validate_daemonset(daemon: apps_v1.DaemonSet) -> ErrorList:
    """Return the errors of a daemon set."""
    errors = ErrorList()
    spec = daemon.spec
    if spec.selector is not None:  # Kubernetes does not miss it, but no pod matches none
        validate_workload_selector(errors, spec.selector, "empty selector is invalid for daemonset")
    validate_workload_template(errors, spec.template, spec.selector, "DaemonSet")
    validate_not_negative(errors, minReadySeconds=spec.min_ready_seconds)
    strategy = spec.update_strategy
    if strategy.type not in ("RollingUpdate", "OnDelete"):
        errors.not_among(_SPEC.child("updateStrategy"), strategy, ("RollingUpdate", "OnDelete"))
    elif strategy.rolling_update is not None and strategy.type == "RollingUpdate":
        where = _SPEC.child("updateStrategy", "rollingUpdate")
        _validate_rolling_update(errors, where, strategy.rolling_update)
    validate_not_negative(errors, revisionHistoryLimit=spec.revision_history_limit)
    return errors


def _validate_rolling_update(errors: ErrorList, path: FieldPath, rolling: apps_v1.RollingUpdateDaemonSet) -> None:
    unavailable, surge = rolling.max_unavailable, rolling.max_surge
    validate_int_or_percent(errors, path.child("maxUnavailable"), unavailable)
    validate_int_or_percent(errors, path.child("maxSurge"), surge)
    for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        if isinstance(value, str) and is_above_hundred_percent(value):
            errors.invalid(path.child(name), value, "must not be greater than 100%")
    if is_zero(unavailable) and is_zero(surge):
        errors.required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
    elif not is_zero(unavailable) and not is_zero(surge):
        errors.invalid(path.child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero")


def validate_daemonset_status(new: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> ErrorList:
    """Return the errors of a changed status."""
    errors = ErrorList()
    status = new.status
    validate_counts(
        errors,
        currentNumberScheduled=status.current_number_scheduled,
        numberMisscheduled=status.number_misscheduled,
        desiredNumberScheduled=status.desired_number_scheduled,
        numberReady=status.number_ready,
        observedGeneration=status.observed_generation,
        updatedNumberScheduled=status.updated_number_scheduled,
        numberAvailable=status.number_available,
        numberUnavailable=status.number_unavailable,
        collisionCount=status.collision_count,
    )
    validate_collisions(errors, status.collision_count, old.status.collision_count)
    return errors


class DaemonSetStrategy(GenerationStrategy[apps_v1.DaemonSet]):
    """Daemon sets count the changes of their template in an annotation.

    The count is a field of Kubernetes' internal type, and apps/v1 shows it as an annotation (pkg/apis/apps/v1,
    conversion.go). Clients can set it on creation only.
    """

    def prepare_create(self, obj: apps_v1.DaemonSet, context: RequestContext) -> apps_v1.DaemonSet:
        """Empty the status and start counting."""
        created = super().prepare_create(obj, context)
        return _with_template_generation(created, max(template_generation(created), 1))

    def prepare_update(
        self, new: apps_v1.DaemonSet, old: apps_v1.DaemonSet, context: RequestContext
    ) -> apps_v1.DaemonSet:
        """Keep the status and count a change of the template."""
        changed = super().prepare_update(new, old, context)
        count = template_generation(old) + (new.spec.template != old.spec.template)
        return _with_template_generation(changed, count)


def template_generation(daemon: apps_v1.DaemonSet) -> int:
    """Return the number of templates that the daemon set has had; 0 if it is not known."""
    text = daemon.metadata.annotations.get(TEMPLATE_GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _with_template_generation(daemon: apps_v1.DaemonSet, count: int) -> apps_v1.DaemonSet:
    annotations = {**daemon.metadata.annotations, TEMPLATE_GENERATION: str(count)}
    return replace(daemon, metadata=replace(daemon.metadata, annotations=annotations))


class DaemonSetStatusStrategy(StatusStrategy[apps_v1.DaemonSet]):
    """A daemon set's status, which its controller writes."""

    def prepare_update(
        self, new: apps_v1.DaemonSet, old: apps_v1.DaemonSet, context: RequestContext
    ) -> apps_v1.DaemonSet:
        """Keep the stored spec, and the count of templates with it."""
        kept = super().prepare_update(new, old, context)
        return _with_template_generation(kept, template_generation(old))


def validate_daemonset_update(new: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> ErrorList:
    """Require an unchanged selector."""
    return with_immutable_selector(validate_daemonset(new), new, old)


def daemonset_cells(daemon: apps_v1.DaemonSet, now: float) -> list[Any]:
    """Return the cells of a DaemonSet."""
    status = daemon.status
    nodes = daemon.spec.template.spec.node_selector if daemon.spec.template.spec else {}
    return [
        daemon.metadata.name,
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_ready,
        status.updated_number_scheduled,
        status.number_available,
        ",".join(f"{key}={value}" for key, value in sorted(nodes.items())) or "<none>",
        age(daemon.metadata.creation_timestamp, now),
        *container_cells(daemon.spec.template),
        selector_text(daemon.spec.selector),
    ]


def daemon_set_definition() -> ResourceDefinition[apps_v1.DaemonSet]:
    """Return the definition of daemonsets."""
    return BuiltinKind(
        apps_v1.DaemonSet,
        "daemonsets",
        namespaced=True,
        drop_disabled=enabled_template,
        default=default_daemonset,
        strategy=DaemonSetStrategy(
            default_daemonset, ObjectRules(validate_daemonset, validate_daemonset_update, workload_warnings)
        ),
        status=DaemonSetStatusStrategy(default_daemonset, validate_daemonset_status),
        table=(DAEMONSET_COLUMNS, daemonset_cells),
        short_names=("ds",),
        categories=("all",),
    ).definition()
