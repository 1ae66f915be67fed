"""Which pods are a controller's: those that its selector matches and no other controller has.

Source: ``pkg/controller/controller_ref_manager.go`` (ClaimPods).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject, LabelSelector
from cathedra.api.selectors import SelectorError, from_label_selector
from cathedra.client.store import Store
from cathedra.controllers.podcontrol import BY_CONTROLLER, PodControl
from cathedra.semantics.owners import controller_of

__all__ = ["ORPHANS", "claim_pods", "orphan_namespace", "selects"]

ORPHANS: Final = "orphan-pods"
"""Name of the index of pods without a controller by their namespace."""


def orphan_namespace(pod: Pod) -> Iterator[str]:
    """Index function of `ORPHANS`."""
    if controller_of(pod) is None:
        yield pod.metadata.namespace


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a workload's selector matches; an invalid or empty one matches nothing."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    try:
        return from_label_selector(selector).matches(labels)
    except SelectorError:
        return False


async def claim_pods(
    control: PodControl, pods: Store[Pod], owner: KubeObject, wants: Callable[[Pod], bool], finalizer: str = ""
) -> None:
    """Adopt the pods that ``owner`` wants and no other has, release those that it does not want any longer.

    ``finalizer`` comes with adoption and goes with release.
    """
    metadata = owner.metadata
    for pod in tuple(pods.by_index(ORPHANS, metadata.namespace)):
        if pod.metadata.deletion_timestamp is None and wants(pod):
            await control.adopt(owner, pod, finalizer)
    for pod in tuple(pods.by_index(BY_CONTROLLER, metadata.uid)):
        if not wants(pod):
            await control.release(owner, pod, finalizer)
