"""What to do next for a pod's containers: a pure function of what they are doing now.

docs/spec/node.md §17.3 to §17.5. Ordinary init containers run one after the other, sidecars stay, regular
containers run together; who has ended is started again if its policy says so, when its back-off is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.node.containers.records import ContainerRecord, of_kind, will_restart

__all__ = ["ContainerPlan", "initialized", "make_plan"]


class ContainerPlan(msgspec.Struct, frozen=True):
    """Containers to start now, in order; when to look again (monotonic seconds); whether the pod has run its course."""

    start: tuple[str, ...] = ()
    look_again: float | None = None
    finished: bool = False


def initialized(records: Sequence[ContainerRecord]) -> bool:
    """Whether all init containers have done their part, so that regular ones may start."""
    if any(record.current is not None or record.attempt for record in of_kind(records, init=False)):
        return True
    return all(_done(record) for record in of_kind(records, init=True))


def _done(record: ContainerRecord) -> bool:
    if record.sidecar:
        return record.running and record.started
    return record.ended is not None and record.ended.exit_code == 0


def make_plan(pod: Pod, records: Sequence[ContainerRecord], now: float) -> ContainerPlan:
    """What to do at ``now`` (monotonic seconds)."""
    begun = initialized(records)
    candidates = [record for record in records if record.ephemeral and record.current is None]
    for record in of_kind(records, init=True):
        if record.sidecar and not record.running:
            candidates.append(record)
        if begun or _done(record):
            continue
        ended = record.ended
        if not record.sidecar and not record.running:
            if ended is not None and not will_restart(pod, record, ended.exit_code or 0):
                return ContainerPlan(finished=True)
            candidates.append(record)
        return _start_those_due(candidates, now)
    regular = of_kind(records, init=False)
    if regular and all(_over(pod, record) for record in regular):
        return ContainerPlan(finished=True)
    candidates += [record for record in regular if not record.running and not _over(pod, record)]
    return _start_those_due(candidates, now)


def _over(pod: Pod, record: ContainerRecord) -> bool:
    return record.ended is not None and not will_restart(pod, record, record.ended.exit_code or 0)


def _start_those_due(candidates: Sequence[ContainerRecord], now: float) -> ContainerPlan:
    due = tuple(record.name for record in candidates if record.due <= now)
    later = [record.due for record in candidates if record.due > now]
    return ContainerPlan(start=due, look_again=min(later, default=None))
