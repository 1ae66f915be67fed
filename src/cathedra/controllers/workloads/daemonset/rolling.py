"""What a rolling update of a daemon set replaces next. Pure.

Source: ``pkg/controller/daemon/update.go`` (rollingUpdate).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from cathedra.api.core.apps_v1 import DaemonSet
from cathedra.api.core.core_v1 import Pod
from cathedra.controllers.workloads.daemonset.placement import oldest_first
from cathedra.controllers.workloads.rollout import resolve
from cathedra.controllers.workloads.templates import REVISION_HASH
from cathedra.semantics.pods import is_available, is_ready

__all__ = ["Daemons", "RolloutStep", "limits", "next_step", "surplus"]


class Daemons(msgspec.Struct, frozen=True):
    """A daemon set and its pods at one moment."""

    obj: DaemonSet
    by_node: Mapping[str, Sequence[Pod]]
    """Pods by the node that they are on, or meant for; without those that have ended and are being deleted."""
    wanted: Collection[str]
    """The nodes that are to have a pod."""
    digest: str
    """The present version."""
    now: float

    def is_available(self, pod: Pod) -> bool:
        """Whether the pod has been ready for long enough."""
        return is_available(pod, self.obj.spec.min_ready_seconds, self.now)

    def is_new(self, pod: Pod) -> bool:
        """Whether the pod is of the present version."""
        return pod.metadata.labels.get(REVISION_HASH) == self.digest

    def pair(self, node: str) -> tuple[Pod | None, Pod | None] | None:
        """The old and the new pod of a node; None if there are two of a kind, of which one is going to be deleted."""
        living = [pod for pod in self.by_node.get(node, ()) if pod.metadata.deletion_timestamp is None]
        old = [pod for pod in living if not self.is_new(pod)]
        new = [pod for pod in living if self.is_new(pod)]
        if len(old) > 1 or len(new) > 1:
            return None
        return next(iter(old), None), next(iter(new), None)


class RolloutStep(msgspec.Struct, frozen=True):
    """Pods to delete, and nodes that get another."""

    doomed: tuple[Pod, ...] = ()
    nodes: tuple[str, ...] = ()


def limits(obj: DaemonSet, nodes: int) -> tuple[int, int]:
    """On how many nodes there may be a pod more, and on how many none."""
    rolling = obj.spec.update_strategy.rolling_update
    surge = resolve(rolling.max_surge if rolling else None, nodes, round_up=True, default=0)
    unavailable = resolve(rolling.max_unavailable if rolling else None, nodes, round_up=True, default=1)
    return surge, unavailable if surge or unavailable else 1


def surplus(daemons: Daemons, running: Iterable[Pod]) -> list[Pod]:
    """What goes of a node's pods: all but the oldest.

    With surge there may be an old and a new one, until the old one is not ready or the new one is available.
    """
    running = oldest_first(running)
    if not limits(daemons.obj, len(daemons.wanted))[0]:
        return running[1:]
    new = [pod for pod in running if daemons.is_new(pod)]
    old = [pod for pod in running if not daemons.is_new(pod)]
    doomed = [*new[1:], *old[1:]]
    if new and old and (daemons.is_available(new[0]) or not is_ready(old[0])):
        doomed.append(old[0])
    return doomed


def next_step(daemons: Daemons) -> RolloutStep:
    """What the update does next."""
    surge, unavailable = limits(daemons.obj, len(daemons.wanted))
    return _surge(daemons, surge) if surge else _replace(daemons, unavailable)


def _replace(daemons: Daemons, unavailable: int) -> RolloutStep:
    """Old pods go so that no more than so many nodes are without an available one."""
    at_once: list[Pod] = []
    candidates: list[Pod] = []
    for node in sorted({*daemons.wanted, *daemons.by_node}):
        old, new = daemons.pair(node) or (None, None)
        if old is None or new is not None:
            unavailable -= new is None or old is not None or not daemons.is_available(new)
        elif daemons.is_available(old):
            candidates.append(old)
        else:
            # It is down already: replacing it costs nothing, but its node counts.
            at_once.append(old)
            unavailable -= 1
    return RolloutStep((*at_once, *candidates[: max(0, unavailable)]))


def _surge(daemons: Daemons, surge: int) -> RolloutStep:
    """New pods are put beside old ones, on so many nodes at a time.

    Where no pod should run any longer the old one stays until enough others are available.
    """
    doomed: list[Pod] = []
    misplaced: list[Pod] = []
    at_once: list[str] = []
    candidates: list[str] = []
    available = 0
    for node in sorted({*daemons.wanted, *daemons.by_node}):
        pair = daemons.pair(node)
        if pair is None:
            surge -= 1
            continue
        old, new = pair
        first = old or new
        available += first is not None and daemons.is_available(first)
        if old is None:
            continue
        if new is not None:
            if daemons.is_available(new):
                doomed.append(old)
            else:
                surge -= 1
        elif node not in daemons.wanted:
            (misplaced if daemons.is_available(old) else doomed).append(old)
        else:
            (candidates if daemons.is_available(old) else at_once).append(node)
    doomed += misplaced[: max(0, available - len(daemons.wanted))]
    return RolloutStep(tuple(doomed), (*at_once, *candidates[: max(0, surge)]))
