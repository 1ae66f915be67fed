"""Rules that the kinds of apps share: selectors, templates, counts and percentages."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1, core_v1, meta_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.selectors import SelectorError, from_label_selector
from cathedra.kinds.core.pods.validation import validate_pod_template
from cathedra.kinds.labelselectors import validate_label_selector

NEGATIVE: Final = "must be greater than or equal to 0"
_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
IMMUTABLE: Final = "field is immutable"


def validate_int_or_percent(errors: ErrorList, path: FieldPath, value: int | str | None) -> None:
    """Validate a number of pods, or a share of all: «25%»."""
    if isinstance(value, str):
        if not (value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()):
            text = "a valid percent string must be a numeric string followed by an ending '%'"
            errors.invalid(path, value, f"{text} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")
    elif value is not None and value < 0:
        errors.invalid(path, value, NEGATIVE)


def is_zero(value: int | str | None) -> bool:
    return value == 0 or (isinstance(value, str) and value.rstrip("%").strip("0") == "")


def is_above_hundred_percent(value: str) -> bool:
    """Return True if the text is a percentage above 100, of however many digits."""
    number = value[:-1]
    if not (value.endswith("%") and number.isascii() and number.isdigit()):
        return False
    digits = number.lstrip("0")
    return len(digits) > 3 or (len(digits) == 3 and digits > "100")


def validate_not_negative(errors: ErrorList, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 0:
            errors.invalid(_SPEC.child(name), value, NEGATIVE)


def validate_workload_selector(errors: ErrorList, selector: meta_v1.LabelSelector | None, when_empty: str) -> None:
    """Report a selector that is missing, invalid or empty; ``when_empty`` is the text for the last case."""
    path = _SPEC.child("selector")
    if selector is None:
        errors.required(path)
        return
    validate_label_selector(errors, path, selector)
    if not selector.match_labels and not selector.match_expressions:
        errors.invalid(path, selector, when_empty)


def validate_workload_template(
    errors: ErrorList, template: core_v1.PodTemplateSpec, selector: meta_v1.LabelSelector | None, owner: str
) -> None:
    """Report the errors of a template whose pods belong to a workload of kind ``owner``."""
    path = _SPEC.child("template")
    labels = template.metadata.labels
    if selector is None or not _matches(selector, labels):
        errors.invalid(path.child("metadata", "labels"), labels or None, "`selector` does not match template `labels`")
    errors.extend(validate_pod_template(template, path))
    if template.spec.restart_policy not in ("", "Always"):
        errors.not_supported(path.child("spec", "restartPolicy"), template.spec.restart_policy, ("Always",))
    if template.spec.active_deadline_seconds is not None:
        where = path.child("spec", "activeDeadlineSeconds")
        errors.forbidden(where, f"activeDeadlineSeconds in {owner} is not Supported")


def has_valid_selector(errors: ErrorList, selector: meta_v1.LabelSelector | None, detail: str) -> bool:
    """Return True if the selector can be evaluated. Otherwise report it once more, with ``detail``: Kubernetes does,
    and does not validate the template then."""
    if selector is None:
        return True
    found = ErrorList()
    validate_label_selector(found, _SPEC, selector)
    if found:
        errors.invalid(_SPEC.child("selector"), selector, detail)
    return not found


def _matches(selector: meta_v1.LabelSelector, labels: dict[str, str]) -> bool:
    try:
        return from_label_selector(selector).matches(labels)
    except SelectorError:
        return True


def validate_counts(errors: ErrorList, **values: int | None) -> None:
    """Report counts of a status, by JSON name, that are negative."""
    for name, value in values.items():
        if value is not None and value < 0:
            errors.invalid(_STATUS.child(name), value, NEGATIVE)


def validate_replicas(
    errors: ErrorList, status: apps_v1.DeploymentStatus | apps_v1.ReplicaSetStatus, **values: int
) -> None:
    """Report counts of pods, by JSON name, that exceed the number of all pods or of those that are ready."""
    for name, value in values.items():
        if value > status.replicas:
            errors.invalid(_STATUS.child(name), value, "cannot be greater than status.replicas")
    if status.available_replicas > status.ready_replicas:
        errors.invalid(
            _STATUS.child("availableReplicas"), status.available_replicas, "cannot be greater than readyReplicas"
        )


def validate_collisions(errors: ErrorList, new: int | None, old: int | None) -> None:
    """Report a count of hash collisions that decreases."""
    if old is not None and (new is None or new < old):
        errors.invalid(_STATUS.child("collisionCount"), new or 0, "cannot be decremented")


def with_immutable_selector(errors: ErrorList, new: Any, old: Any) -> ErrorList:
    if new.spec.selector != old.spec.selector:
        errors.invalid(_SPEC.child("selector"), new.spec.selector, IMMUTABLE)
    return errors
