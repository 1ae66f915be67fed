"""Rules of what keeps pods running: deployments, replica sets, stateful sets, daemon sets."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1, core_v1, meta_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.selectors import SelectorError, from_label_selector
from cathedra.api.struct import replace
from cathedra.api.validation.pods import validate_pod_template

__all__ = [
    "validate_daemonset",
    "validate_daemonset_update",
    "validate_deployment",
    "validate_deployment_update",
    "validate_replicaset",
    "validate_replicaset_update",
    "validate_statefulset",
    "validate_statefulset_update",
]

_SPEC: Final = FieldPath("spec")
_NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"


def validate_deployment(deployment: apps_v1.Deployment) -> ErrorList:
    """What is wrong with a deployment."""
    errors = ErrorList()
    spec = deployment.spec
    _not_negative(errors, replicas=spec.replicas)
    _selector(errors, spec.selector, "empty selector is invalid for deployment")
    _template(errors, spec.template, spec.selector, "ReplicaSet")
    _deployment_strategy(errors, _SPEC.child("strategy"), spec.strategy)
    _not_negative(
        errors,
        minReadySeconds=spec.min_ready_seconds,
        revisionHistoryLimit=spec.revision_history_limit,
        progressDeadlineSeconds=spec.progress_deadline_seconds,
    )
    deadline = spec.progress_deadline_seconds
    if deadline is not None and deadline <= spec.min_ready_seconds:
        errors.invalid(_SPEC.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")
    return errors


def validate_deployment_update(new: apps_v1.Deployment, old: apps_v1.Deployment) -> ErrorList:
    """The selector stays."""
    return _with_selector(validate_deployment(new), new, old)


def _deployment_strategy(errors: ErrorList, path: FieldPath, strategy: apps_v1.DeploymentStrategy) -> None:
    rolling = strategy.rolling_update
    if strategy.type == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            errors.forbidden(path.child("rollingUpdate"), text)
    elif strategy.type != "RollingUpdate":
        errors.not_supported(path.child("type"), strategy.type, ("Recreate", "RollingUpdate"))
    elif rolling is None:
        errors.required(path.child("rollingUpdate"), "this should be defaulted and never be nil")
    else:
        where = path.child("rollingUpdate")
        _amount(errors, where.child("maxUnavailable"), rolling.max_unavailable)
        _amount(errors, where.child("maxSurge"), rolling.max_surge)
        if _is_zero(rolling.max_unavailable) and _is_zero(rolling.max_surge):
            errors.invalid(where.child("maxUnavailable"), rolling.max_unavailable, "may not be 0 when `maxSurge` is 0")


def _amount(errors: ErrorList, path: FieldPath, value: int | str | None) -> None:
    """A number of pods, or a share of all: «25%»."""
    if isinstance(value, str):
        if not (value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()):
            text = "a valid percent string must be a numeric string followed by an ending '%'"
            errors.invalid(path, value, f"{text} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")
    elif value is not None and value < 0:
        errors.invalid(path, value, _NEGATIVE)


def _is_zero(value: int | str | None) -> bool:
    return value == 0 or (isinstance(value, str) and value.rstrip("%").strip("0") == "")


def validate_replicaset(replicas: apps_v1.ReplicaSet) -> ErrorList:
    """What is wrong with a replica set."""
    errors = ErrorList()
    spec = replicas.spec
    _not_negative(errors, replicas=spec.replicas, minReadySeconds=spec.min_ready_seconds)
    _selector(errors, spec.selector, "empty selector is invalid for deployment")
    _template(errors, spec.template, spec.selector, "ReplicaSet")
    return errors


def validate_replicaset_update(new: apps_v1.ReplicaSet, old: apps_v1.ReplicaSet) -> ErrorList:
    """The selector stays."""
    return _with_selector(validate_replicaset(new), new, old)


def validate_statefulset(stateful: apps_v1.StatefulSet) -> ErrorList:
    """What is wrong with a stateful set."""
    errors = ErrorList()
    spec = stateful.spec
    policy = _SPEC.child("podManagementPolicy")
    if not spec.pod_management_policy:
        errors.required(policy)
    elif spec.pod_management_policy not in ("OrderedReady", "Parallel"):
        errors.invalid(policy, spec.pod_management_policy, "must be 'OrderedReady' or 'Parallel'")
    strategy = _SPEC.child("updateStrategy")
    if not spec.update_strategy.type:
        errors.required(strategy)
    elif spec.update_strategy.type not in ("RollingUpdate", "OnDelete"):
        errors.invalid(strategy, spec.update_strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif spec.update_strategy.type == "OnDelete" and spec.update_strategy.rolling_update is not None:
        errors.invalid(
            strategy.child("rollingUpdate"),
            spec.update_strategy.rolling_update,
            "only allowed for updateStrategy 'RollingUpdate'",
        )
    _not_negative(errors, replicas=spec.replicas, minReadySeconds=spec.min_ready_seconds)
    _selector(errors, spec.selector, "empty selector is invalid for statefulset")
    _template(errors, spec.template, spec.selector, "StatefulSet")
    return errors


def validate_statefulset_update(new: apps_v1.StatefulSet, old: apps_v1.StatefulSet) -> ErrorList:
    """Most of the spec stays."""
    errors = validate_statefulset(new)
    kept = replace(
        new.spec,
        **{
            name: getattr(old.spec, name)
            for name in (
                "replicas",
                "ordinals",
                "template",
                "update_strategy",
                "revision_history_limit",
                "persistent_volume_claim_retention_policy",
                "min_ready_seconds",
            )
        },
    )
    if kept != old.spec:
        errors.forbidden(
            _SPEC,
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        )
    return errors


def validate_daemonset(daemon: apps_v1.DaemonSet) -> ErrorList:
    """What is wrong with a daemon set."""
    errors = ErrorList()
    spec = daemon.spec
    _selector(errors, spec.selector, "empty selector is invalid for daemonset")
    _template(errors, spec.template, spec.selector, "DaemonSet")
    _not_negative(errors, minReadySeconds=spec.min_ready_seconds)
    strategy = spec.update_strategy
    if strategy.type not in ("RollingUpdate", "OnDelete"):
        where = _SPEC.child("updateStrategy", "type")
        errors.not_supported(where, strategy.type, ("RollingUpdate", "OnDelete"))
    elif strategy.rolling_update is not None and strategy.type == "RollingUpdate":
        where = _SPEC.child("updateStrategy", "rollingUpdate")
        _amount(errors, where.child("maxUnavailable"), strategy.rolling_update.max_unavailable)
        _amount(errors, where.child("maxSurge"), strategy.rolling_update.max_surge)
    _not_negative(errors, revisionHistoryLimit=spec.revision_history_limit)
    return errors


def validate_daemonset_update(new: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> ErrorList:
    """The selector stays."""
    return _with_selector(validate_daemonset(new), new, old)


# --- what they share


def _not_negative(errors: ErrorList, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 0:
            errors.invalid(_SPEC.child(name), value, _NEGATIVE)


def _selector(errors: ErrorList, selector: meta_v1.LabelSelector | None, when_empty: str) -> None:
    path = _SPEC.child("selector")
    if selector is None:
        errors.required(path)
        return
    try:
        from_label_selector(selector)
    except SelectorError as error:
        errors.invalid(path, selector, str(error))
        return
    if not selector.match_labels and not selector.match_expressions:
        errors.invalid(path, selector, when_empty)


def _template(
    errors: ErrorList, template: core_v1.PodTemplateSpec, selector: meta_v1.LabelSelector | None, owner: str
) -> None:
    path = _SPEC.child("template")
    labels = template.metadata.labels
    if selector is not None and not _matches(selector, labels):
        errors.invalid(path.child("metadata", "labels"), labels, "`selector` does not match template `labels`")
    errors.extend(validate_pod_template(template, path))
    if template.spec.restart_policy not in ("", "Always"):
        errors.not_supported(path.child("spec", "restartPolicy"), template.spec.restart_policy, ("Always",))
    if template.spec.active_deadline_seconds is not None:
        where = path.child("spec", "activeDeadlineSeconds")
        errors.forbidden(where, f"activeDeadlineSeconds in {owner} is not Supported")


def _matches(selector: meta_v1.LabelSelector, labels: dict[str, str]) -> bool:
    try:
        return from_label_selector(selector).matches(labels)
    except SelectorError:
        return True


def _with_selector(errors: ErrorList, new: Any, old: Any) -> ErrorList:
    if new.spec.selector != old.spec.selector:
        errors.invalid(_SPEC.child("selector"), new.spec.selector, IMMUTABLE)
    return errors
