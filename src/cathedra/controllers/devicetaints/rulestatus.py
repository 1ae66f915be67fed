"""What the status of a taint rule says: one condition, worded as Kubernetes does.

Spec: docs/spec/controllers.md §3.3.
"""

from __future__ import annotations

import msgspec

__all__ = ["RuleCondition", "dry_run", "progress"]

_FINAL = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


class RuleCondition(msgspec.Struct, frozen=True):
    """Condition EvictionInProgress."""

    status: str
    reason: str
    message: str


def progress(effect: str, pending: int, namespaces: int, evicted: int) -> RuleCondition:
    """The condition of a rule: so many pods in so many namespaces still have to go, so many have gone."""
    if effect != "NoExecute":
        return RuleCondition(
            "False", "OtherEffect", _joined("Eviction only happens for the NoExecute effect.", evicted)
        )
    if pending:
        verb = "needs" if pending == 1 else "need"
        message = f"{_count(pending, 'pod')} {verb} to be evicted in {_namespaces(namespaces)}."
        return RuleCondition("True", "PodsPendingEviction", _joined(message, evicted))
    return RuleCondition("False", "Completed" if evicted else "NotStarted", _joined("", evicted))


def dry_run(published: int, allocated: int, pods: int, namespaces: int, evicted: int) -> RuleCondition:
    """The condition of a rule without effect: what it would do."""
    message = (
        f"{_count(published, 'published device')} selected. {_count(allocated, 'allocated device')} selected. "
        f"{_count(pods, 'pod')} would be evicted in {_namespaces(namespaces)} if the effect was NoExecute. {_FINAL}"
    )
    return RuleCondition("False", "NoEffect", _joined(message, evicted))


def _joined(message: str, evicted: int) -> str:
    if not evicted:
        return message
    return f"{message} {_count(evicted, 'pod')} evicted since starting the controller.".strip()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"
