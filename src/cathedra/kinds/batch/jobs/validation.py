"""Rules of jobs, with their failure policies, success policies and limits per index (docs/spec/controllers.md §7)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
from typing import Final

from cathedra.api.core import batch_v1, core_v1
from cathedra.api.field import OMITTED, ErrorList, FieldPath
from cathedra.api.formats import dns_subdomain, qualified_name
from cathedra.api.selectors import SelectorError, from_label_selector
from cathedra.api.struct import replace
from cathedra.kinds.core.pods.validation import spec_form, validate_pod_template
from cathedra.kinds.labelselectors import validate_label_selector
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import is_true

LONGEST_MANAGER: Final = 63
_SPEC = FieldPath("spec")
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def validate_job(job: batch_v1.Job, gates: FeatureGates) -> ErrorList:
    """Return the errors of a new job."""
    errors = ErrorList()
    spec = job.spec
    validate_job_spec(errors, _SPEC, spec)
    if spec.selector is None:
        errors.required(_SPEC.child("selector"))
        return errors
    validate_label_selector(errors, _SPEC.child("selector"), spec.selector)
    labels = spec.template.metadata.labels
    # An invalid selector was reported just before; it cannot be compared with labels.
    with contextlib.suppress(SelectorError):
        if not from_label_selector(spec.selector).matches(labels):
            path = _SPEC.child("template", "metadata", "labels")
            errors.invalid(path, labels or None, "`selector` does not match template `labels`")
    return errors


def validate_job_spec(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    for name, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        if value is not None and value < 0:
            errors.invalid(path.child(name), value, "must be greater than or equal to 0")
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        errors.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
    _validate_manager(errors, path.child("managedBy"), spec.managed_by)
    if spec.completion_mode not in (None, "", "NonIndexed", "Indexed"):
        errors.not_among(path.child("completionMode"), spec.completion_mode, ("NonIndexed", "Indexed"))
    if spec.completion_mode == "Indexed" and spec.completions is None:
        errors.required(path.child("completions"), "when completion mode is Indexed")
    validate_limits_per_index(errors, path, spec)
    validate_failure_policy(errors, path.child("podFailurePolicy"), spec)
    validate_success_policy(errors, path.child("successPolicy"), spec)
    validate_replacement(errors, path.child("podReplacementPolicy"), spec)
    template = path.child("template")
    errors += validate_pod_template(spec.template, template)
    policy, restarts = template.child("spec", "restartPolicy"), spec.template.spec.restart_policy
    if restarts in ("", "Always"):
        errors.required(policy, 'valid values: "OnFailure", "Never"')
    elif restarts not in ("OnFailure", "Never"):
        errors.not_among(policy, restarts, ("OnFailure", "Never"))
    elif spec.pod_failure_policy is not None and restarts != "Never":
        errors.invalid(policy, restarts, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_manager(errors: ErrorList, path: FieldPath, manager: str | None) -> None:
    if manager is None:
        return
    if not manager:
        errors.required(path)
        return
    domain, _, rest = manager.partition("/")
    if not domain or not rest:
        errors.invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    for problem in dns_subdomain(domain):
        errors.invalid(path, domain, problem)
    if not _PATH.fullmatch(rest):
        errors.invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH.pattern}')")
    if len(manager) > LONGEST_MANAGER:
        errors.too_long(path, LONGEST_MANAGER)


def validate_job_update(new: batch_v1.Job, old: batch_v1.Job, gates: FeatureGates) -> ErrorList:
    """Require that selector, template (unless suspended), completion mode and completions are unchanged."""
    errors = validate_job(new, gates)
    # Kubernetes validates the spec of a changed job as that of a new one, and then as that of a change.
    if errors:
        validate_job_spec(errors, _SPEC, new.spec)
    # Elastic indexed jobs: completions may change together with parallelism (KEP-3715).
    indexed = new.spec.completion_mode == "Indexed"
    follows = new.spec.completions == new.spec.parallelism
    if new.spec.completions != old.spec.completions and not (indexed and follows):
        errors.invalid(_SPEC.child("completions"), new.spec.completions, "field is immutable")
    for name, attribute in (("selector", "selector"), ("completionMode", "completion_mode")):
        value = getattr(new.spec, attribute)
        if value != getattr(old.spec, attribute):
            errors.invalid(_SPEC.child(name), value, "field is immutable")
    before, after = old.spec.template, new.spec.template
    # Permitted changes are made in the old template too; what still differs is forbidden.
    if _may_move(old, gates):
        before = _moved(before, after)
    if _is_on(gates, "MutablePodResourcesForSuspendedJobs") and _has_stopped(old):
        before = _resized(before, after)
    if after != before:
        # While scheduling directives may change, Kubernetes compares the rest part by part.
        if _may_move(old, gates) and after.spec != before.spec:
            shown = spec_form(after.spec, gates.release)
            errors.invalid(_SPEC.child("template", "spec"), shown, "field is immutable")
        else:
            errors.invalid(_SPEC.child("template"), after, "field is immutable")
    for name, attribute in (
        ("podFailurePolicy", "pod_failure_policy"),
        ("backoffLimitPerIndex", "backoff_limit_per_index"),
        ("managedBy", "managed_by"),
        ("successPolicy", "success_policy"),
    ):
        value = getattr(new.spec, attribute)
        if value != getattr(old.spec, attribute):
            errors.invalid(_SPEC.child(name), value, "field is immutable")
    return errors


def _is_on(gates: FeatureGates, gate: str) -> bool:
    """Return True if a gate is on; one that the release does not know is off."""
    # Gates of later releases: reading an unknown one is an error elsewhere, since there it is a misspelt name.
    return gate in frozenset(gates) and gates[gate]


def _may_move(old: batch_v1.Job, gates: FeatureGates) -> bool:
    """Return True if node selectors may change: the job is suspended, and no pod was created since."""
    if _is_on(gates, "MutableSchedulingDirectivesForSuspendedJobs"):
        return _has_stopped(old)
    return bool(old.spec.suspend) and old.status.start_time is None


def _has_stopped(old: batch_v1.Job) -> bool:
    never_ran = old.status.start_time is None or is_true(old.status.conditions, "Suspended")
    return bool(old.spec.suspend) and not old.status.active and never_ran


def _moved(before: core_v1.PodTemplateSpec, after: core_v1.PodTemplateSpec) -> core_v1.PodTemplateSpec:
    """Return the old template with the new node selectors and tolerations. Affinity between pods is unchanged."""
    old, new = before.spec.affinity, after.spec.affinity
    nodes = new.node_affinity if new is not None else None
    affinity: core_v1.Affinity | None = replace(old or core_v1.Affinity(), node_affinity=nodes)
    # An affinity without content equals none: Kubernetes removes it before it compares.
    if new is None and affinity == core_v1.Affinity():
        affinity = None
    names = ("node_selector", "tolerations", "scheduling_gates")
    spec = replace(before.spec, affinity=affinity, **{name: getattr(after.spec, name) for name in names})
    metadata = replace(before.metadata, labels=after.metadata.labels, annotations=after.metadata.annotations)
    return replace(before, metadata=metadata, spec=spec)


def _resized(before: core_v1.PodTemplateSpec, after: core_v1.PodTemplateSpec) -> core_v1.PodTemplateSpec:
    """Return the old template with the resources that the new one has for each container."""
    resized: dict[str, tuple[core_v1.Container, ...]] = {}
    for name in ("containers", "init_containers"):
        old, new = getattr(before.spec, name) or (), getattr(after.spec, name) or ()
        if old and len(old) == len(new):
            pairs = zip(old, new, strict=True)
            resized[name] = tuple(replace(one, resources=other.resources) for one, other in pairs)
    return replace(before, spec=replace(before.spec, **resized))


MOST_RULES: Final = 20
MOST_PATTERNS: Final = 20
MOST_VALUES: Final = 255
LONGEST_INDEXES: Final = 64 * 1024
MOST_INDEXES: Final = 100_000
"""Number of an indexed job's pods that may run at once, and of its indexes that may fail."""
MOST_WITH_MANY: Final = 10_000
"""The same where each index has a limit and there are more than `MOST_INDEXES` completions."""

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_NEGATIVE: Final = "must be greater than or equal to 0"
_NEEDS_INDEXES: Final = "requires indexed completion mode"


class BadIndexes(ValueError):
    """A text does not list indexes."""


def validate_limits_per_index(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    """Validate limits on the failures of single indexes, and on how many indexes may fail."""
    most = spec.max_failed_indexes
    if spec.completion_mode in (None, "", "NonIndexed"):
        for name, value in (("backoffLimitPerIndex", spec.backoff_limit_per_index), ("maxFailedIndexes", most)):
            if value is not None:
                errors.invalid(path.child(name), value, _NEEDS_INDEXES)
    if spec.completion_mode != "Indexed":
        return
    parallelism, completions = spec.parallelism, spec.completions
    if parallelism is not None and parallelism > MOST_INDEXES:
        text = f"must be less than or equal to {MOST_INDEXES} when completion mode is Indexed"
        errors.invalid(path.child("parallelism"), parallelism, text)
    if completions is None:
        return
    where = path.child("maxFailedIndexes")
    if most is not None and most > completions:
        errors.invalid(where, most, "must be less than or equal to completions")
    if most is not None and most > MOST_INDEXES:
        errors.invalid(where, most, f"must be less than or equal to {MOST_INDEXES}")
    if completions <= MOST_INDEXES or spec.backoff_limit_per_index is None:
        return
    if most is None:
        errors.required(where, f"must be specified when completions is above {MOST_INDEXES}")
    limit = (
        f"must be less than or equal to {MOST_WITH_MANY} when completions are above {MOST_INDEXES} "
        "and used with backoff limit per index"
    )
    if parallelism is not None and parallelism > MOST_WITH_MANY:
        errors.invalid(path.child("parallelism"), parallelism, limit)
    if most is not None and most > MOST_WITH_MANY:
        errors.invalid(where, most, limit)


def validate_failure_policy(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    """Validate the actions for failed pods, by exit code or condition."""
    if spec.pod_failure_policy is None:
        return
    rules, where = spec.pod_failure_policy.rules, path.child("rules")
    if len(rules) > MOST_RULES:
        errors.too_many(where, len(rules), MOST_RULES)
    pod = spec.template.spec
    containers = {container.name for container in (*(pod.containers or ()), *pod.init_containers)}
    for number, rule in enumerate(rules):
        _failure_rule(errors, where.index(number), rule, containers, per_index=spec.backoff_limit_per_index is not None)


def _failure_rule(
    errors: ErrorList,
    path: FieldPath,
    rule: batch_v1.PodFailurePolicyRule,
    containers: Collection[str],
    *,
    per_index: bool,
) -> None:
    action = path.child("action")
    if rule.action == "FailIndex":
        if not per_index:
            errors.invalid(action, rule.action, "requires the backoffLimitPerIndex to be set")
    else:
        _one_of(errors, action, rule.action, _ACTIONS)
    if rule.on_exit_codes is not None:
        _exit_codes(errors, path.child("onExitCodes"), rule.on_exit_codes, containers)
    _patterns(errors, path.child("onPodConditions"), rule.on_pod_conditions)
    if rule.on_exit_codes is not None and rule.on_pod_conditions:
        errors.invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported")
    if rule.on_exit_codes is None and not rule.on_pod_conditions:
        errors.invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(
    errors: ErrorList,
    path: FieldPath,
    codes: batch_v1.PodFailurePolicyOnExitCodesRequirement,
    containers: Collection[str],
) -> None:
    _one_of(errors, path.child("operator"), codes.operator, _OPERATORS)
    name = codes.container_name
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.invalid(path.child("containerName"), name, text)
    where = path.child("values")
    if not codes.values:
        errors.invalid(where, [], "at least one value is required")
    elif len(codes.values) > MOST_VALUES:
        errors.too_many(where, len(codes.values), MOST_VALUES)
    seen: set[int] = set()
    for number, code in enumerate(codes.values):
        if codes.operator == "In" and code == 0:
            errors.invalid(where.index(number), code, "must not be 0 for the In operator")
        if code in seen:
            errors.duplicate(where.index(number), code)
        seen.add(code)
    if list(codes.values) != sorted(codes.values):
        errors.invalid(where, codes.values, "must be ordered")


def _patterns(
    errors: ErrorList, path: FieldPath, patterns: tuple[batch_v1.PodFailurePolicyOnPodConditionsPattern, ...]
) -> None:
    if len(patterns) > MOST_PATTERNS:
        errors.too_many(path, len(patterns), MOST_PATTERNS)
    for number, pattern in enumerate(patterns):
        where = path.index(number)
        for problem in qualified_name(pattern.type):
            errors.invalid(where.child("type"), pattern.type, problem)
        _one_of(errors, where.child("status"), pattern.status, _STATUSES)


def _one_of(errors: ErrorList, path: FieldPath, value: str, known: tuple[str, ...]) -> None:
    if not value:
        quoted = " ".join(f'"{one}"' for one in known)
        errors.required(path, f"valid values: [{quoted}]")
    elif value not in known:
        errors.not_supported(path, value, known)


def validate_success_policy(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    """Validate the rules by which an indexed job succeeds although some of its indexes have not."""
    policy = spec.success_policy
    if policy is None:
        return
    if spec.completion_mode != "Indexed":
        errors.invalid(path, policy, _NEEDS_INDEXES)
        return
    where = path.child("rules")
    if not policy.rules:
        errors.required(where, "at least one rules must be specified when the successPolicy is specified")
    if len(policy.rules) > MOST_RULES:
        errors.too_many(where, len(policy.rules), MOST_RULES)
    for number, rule in enumerate(policy.rules):
        _success_rule(errors, where.index(number), rule, spec.completions or 0)


def _success_rule(errors: ErrorList, path: FieldPath, rule: batch_v1.SuccessPolicyRule, completions: int) -> None:
    indexes, count = rule.succeeded_indexes, rule.succeeded_count
    if indexes is None and count is None:
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        where = path.child("succeededIndexes")
        if len(indexes) > LONGEST_INDEXES:
            errors.too_long(where, LONGEST_INDEXES)
        try:
            total = count_indexes(indexes, completions)
        except BadIndexes as error:
            errors.invalid(where, indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    where, at_most = path.child("succeededCount"), "must be less than or equal to"
    if count < 0:
        errors.invalid(where, count, _NEGATIVE)
    if count > completions:
        errors.invalid(where, count, f"{at_most} {completions} (the number of specified completions)")
    if indexes is not None and count > total:
        text = f"{at_most} {total} (the number of indexes in the specified succeededIndexes field)"
        errors.invalid(where, count, text)


def count_indexes(text: str, completions: int) -> int:
    """Count the indexes in ``text``, as «0,2-4».

    Raises:
        BadIndexes: it is no ascending list of indexes below ``completions``.
    """
    total, last = 0, -1
    for fragment in text.split(",") if text else ():
        parts = fragment.split("-")
        if len(parts) > 2:
            rule = "an index interval can have at most two parts separated by '-'"
            raise BadIndexes(f'the fragment "{fragment}" violates the requirement that {rule}')
        limits = [_index(part, completions) for part in parts]
        if len(limits) == 2 and limits[0] >= limits[1]:
            raise BadIndexes(f"non-increasing order, previous: {limits[0]}, current: {limits[1]}")
        if last >= limits[0]:
            raise BadIndexes(f"non-increasing order, previous: {last}, current: {limits[0]}")
        last = limits[-1]
        total += last - limits[0] + 1
    return total


_MOST_DIGITS: Final = 18


def _index(text: str, completions: int) -> int:
    # Python refuses to read thousands of digits, and Go any number beyond 64 bits.
    if not (text.isascii() and text.removeprefix("+").isdigit()) or len(text.lstrip("+0")) > _MOST_DIGITS:
        raise BadIndexes(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise BadIndexes(f'too large index: "{text}"')
    return int(text)


def validate_replacement(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    """Validate when failed pods are replaced. A failure policy must first see how a pod has failed."""
    known = ("Failed",) if spec.pod_failure_policy is not None else ("Failed", "TerminatingOrFailed")
    if spec.pod_replacement_policy is not None and spec.pod_replacement_policy not in known:
        errors.not_supported(path, spec.pod_replacement_policy, known)
