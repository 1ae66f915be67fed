"""What the failure of one pod means for its job (podFailurePolicy)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cathedra.api.core.batch_v1 import Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule
from cathedra.api.core.core_v1 import ContainerStatus, Pod

__all__ = ["PolicyMatch", "judge"]


class PolicyMatch(msgspec.Struct, frozen=True):
    """``action`` is Count, Ignore, FailJob or FailIndex; ``message`` says why when the job fails."""

    action: str
    message: str = ""


def judge(job: Job, pod: Pod) -> PolicyMatch:
    """The first rule that fits decides; without one the failure counts."""
    policy = job.spec.pod_failure_policy
    if policy is None:
        return PolicyMatch("Count")
    for number, rule in enumerate(policy.rules):
        message = _match(rule, number, pod)
        if message is not None:
            return PolicyMatch(rule.action, message)
    return PolicyMatch("Count")


def _match(rule: PodFailurePolicyRule, number: int, pod: Pod) -> str | None:
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        container = next(_matching_containers(rule.on_exit_codes, pod), None)
        if container is None or container.state.terminated is None:
            return None
        return (
            f"Container {container.name} for pod {where} failed with exit code "
            f"{container.state.terminated.exit_code} matching {rule.action} rule at index {number}"
        )
    for pattern in rule.on_pod_conditions:
        for condition in pod.status.conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status or "True"):
                return f"Pod {where} has condition {condition.type} matching {rule.action} rule at index {number}"
    return None


def _matching_containers(rule: PodFailurePolicyOnExitCodesRequirement, pod: Pod) -> Iterator[ContainerStatus]:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if rule.container_name is not None and status.name != rule.container_name:
            continue
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if (ended.exit_code in rule.values) == (rule.operator == "In"):
            yield status
