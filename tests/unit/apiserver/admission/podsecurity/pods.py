"""Pods for the checks of the Pod Security Standards, as clients write them."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.apiserver.admission.podsecurity.enforcement import LATEST, LevelVersion, in_detail, violations
from cathedra.apiserver.admission.podsecurity.violations import Check

__all__ = ["GOOD", "container", "pod", "refusal", "said"]

GOOD: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""A security context that every level takes."""


def container(name: str = "a", context: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A container, by default with a context that every level takes."""
    return {"name": name, "image": "i", "securityContext": {**GOOD, **(context or {})}, **fields}


def pod(*containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    """A pod with these containers."""
    body = {
        "metadata": {"name": "p", "namespace": "n", "annotations": annotations or {}},
        "spec": {"containers": list(containers) or [container()], **spec},
    }
    return from_dict(Pod, body)


def refusal(made: Pod, level: str = "restricted", minor: int = LATEST) -> str:
    """Return the violations of a level by a pod."""
    return in_detail(violations(LevelVersion(level, minor), 37, made.metadata, made.spec))


def said(check: Check, made: Pod) -> str:
    """Return the detail of a violation of one check; "" if there is none."""
    found = check(made.metadata, made.spec)
    return found.detail if found is not None else ""
