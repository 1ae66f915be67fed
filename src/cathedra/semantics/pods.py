"""Meaning of a pod's phase, readiness of pods, and the form in which pods of one workload are equal.

Sources: ``pkg/api/v1/pod/util.go``, ``pkg/controller/controller_utils.go`` (IsPodActive, IsPodTerminating).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cathedra.api.core.core_v1 import Container, EphemeralContainer, Pod, PodSpec
from cathedra.api.field import FieldPath
from cathedra.api.struct import encode, replace
from cathedra.semantics.conditions import find_condition

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Annotation of pods that show a static pod, which a node runs from a file."""


def is_terminal(pod: Pod) -> bool:
    """Return True if the pod has ended for good (IsPodTerminal)."""
    return pod.status.phase in TERMINAL_PHASES


def is_mirror(pod: Pod) -> bool:
    """Return True if the pod shows a static pod (IsMirrorPod)."""
    return MIRROR_ANNOTATION in pod.metadata.annotations


def is_active(pod: Pod) -> bool:
    """Return True if the pod has not ended and is not being deleted (IsPodActive)."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def is_ready(pod: Pod) -> bool:
    """Return True if condition Ready is True (IsPodReady)."""
    # Without further calls: workloads count their ready pods whenever one of them changes.
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def ready_since(pod: Pod) -> float | None:
    """Return when the pod became ready (epoch seconds, 0 if that is not recorded). Return None if it is not ready."""
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        return None
    return ready.last_transition_time.timestamp if ready.last_transition_time is not None else 0.0


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    """Return True if the pod has been ready for that many seconds at ``now`` (epoch seconds; IsPodAvailable)."""
    since = ready_since(pod)
    return since is not None and (min_ready_seconds == 0 or since + min_ready_seconds <= now)


def is_sidecar(container: Container) -> bool:
    """Return True if an init container goes on beside the pod's containers (``restartPolicy: Always``)."""
    return container.restart_policy == "Always"


def long_running_containers(pod: Pod) -> Iterator[Container]:
    """Yield the containers and the sidecars: those that run at the same time, and so may not have the same host
    port."""
    yield from pod.spec.containers
    yield from (container for container in pod.spec.init_containers if is_sidecar(container))


def containers_at(path: FieldPath, spec: PodSpec) -> Iterator[tuple[FieldPath, Container | EphemeralContainer]]:
    """Yield the containers of a spec with their fields: init containers, containers, then ephemeral ones
    (VisitContainersWithPath)."""
    groups: tuple[tuple[str, Sequence[Container | EphemeralContainer]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    for name, containers in groups:
        for position, container in enumerate(containers):
            yield path.child(name).index(position), container


_ORDINALS: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)


def workload_labels(pod: Pod) -> dict[str, str]:
    """Return the labels of a pod without those in which the pods of one workload differ."""
    return {key: value for key, value in pod.metadata.labels.items() if key not in _ORDINALS}


_TOKEN_VOLUME: Final = re.compile(rb"kube-api-access-[a-z0-9]+")
"""Name of the volume that admission gives to every pod, with random letters at its end."""


def spec_form(pod: Pod) -> bytes:
    """Return the spec of a pod in a form that is equal for pods of one workload: without node, names of its claims,
    group and token volume."""
    sources = tuple([replace(one, resource_claim_name=None) for one in pod.spec.resource_claims])
    spec = replace(pod.spec, node_name="", hostname="", scheduling_group=None, resource_claims=sources)
    return _TOKEN_VOLUME.sub(b"", encode(spec))
