"""DaemonSets: one pod on each node."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.apps.validation import (
    validate_int_or_percent,
    validate_not_negative,
    validate_workload_selector,
    validate_workload_template,
    with_immutable_selector,
)
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.templates import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    container_cells,
    selector_text,
    with_template_labels,
)
from cathedra.kinds.core.pods.warnings import workload_warnings
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

__all__ = [
    "daemon_set_definition",
    "daemonset_cells",
    "default_daemonset",
    "validate_daemonset",
    "validate_daemonset_update",
]

_SPEC: Final = FieldPath("spec")
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
    """A daemon set that rolls one node at a time."""
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
    return with_template_labels(replace(daemon, spec=filled), spec.template)


def validate_daemonset(daemon: apps_v1.DaemonSet) -> ErrorList:
    """What is wrong with a daemon set."""
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
        validate_int_or_percent(errors, where.child("maxUnavailable"), strategy.rolling_update.max_unavailable)
        validate_int_or_percent(errors, where.child("maxSurge"), strategy.rolling_update.max_surge)
    validate_not_negative(errors, revisionHistoryLimit=spec.revision_history_limit)
    return errors


def validate_daemonset_update(new: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> ErrorList:
    """The selector stays."""
    return with_immutable_selector(validate_daemonset(new), new, old)


def daemonset_cells(daemon: apps_v1.DaemonSet, now: float) -> list[Any]:
    """Cells of a DaemonSet."""
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
    """The definition of daemonsets."""
    return BuiltinKind(
        apps_v1.DaemonSet,
        "daemonsets",
        namespaced=True,
        default=default_daemonset,
        rules=ObjectRules(validate_daemonset, validate_daemonset_update, workload_warnings),
        counts_generation=True,
        table=(DAEMONSET_COLUMNS, daemonset_cells),
        short_names=("ds",),
        categories=("all",),
    ).definition()
