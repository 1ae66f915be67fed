"""The newest known version of a pod's API object, shared by all parts of the node that work for the pod."""

from __future__ import annotations

from collections.abc import Callable

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import replace
from cathedra.api.undecodable import Undecodable, rest_of


class PodObject:
    """The newest version of one pod. ``on_change`` is called when others have changed or removed it."""

    __slots__ = ("_gone", "_on_change", "_pod")

    def __init__(self, pod: Pod, on_change: Callable[[], None]) -> None:
        self._pod = pod
        self._on_change = on_change
        self._gone = False

    @property
    def pod(self) -> Pod:
        """Return the newest version that is known."""
        return self._pod

    @property
    def gone(self) -> bool:
        """Return True if the object no longer exists."""
        return self._gone

    @property
    def deleted(self) -> bool:
        """Return True if its deletion was requested or is done."""
        return self._gone or self._pod.metadata.deletion_timestamp is not None

    @property
    def grace_seconds(self) -> float:
        """Seconds for the pod to end: those of its deletion, otherwise those of its spec."""
        seconds = self._pod.metadata.deletion_grace_period_seconds
        return self.own_grace_seconds if seconds is None else max(seconds, 1)

    @property
    def own_grace_seconds(self) -> float:
        """Seconds for the pod to end if its deletion names none."""
        seconds = self._pod.spec.termination_grace_period_seconds
        return 30.0 if seconds is None else seconds

    def offer(self, pod: Pod) -> None:
        """Store a version that was read or watched, if it is newer. Another UID means that this pod is gone."""
        if pod.metadata.uid != self._pod.metadata.uid:
            self.note_gone()
        elif _version(pod) > _version(self._pod):
            self._pod = pod
            self._on_change()

    def note_written(self, pod: Pod) -> None:
        """Store the version that the API server returned for a write of this node."""
        self._pod = pod

    def offer_undecodable(self, what: Undecodable) -> None:
        """Handle a version that cannot be decoded: the last known spec stays."""
        self.offer(_last_known(self._pod, what))

    def note_gone(self) -> None:
        """Note that the object has been removed."""
        self._gone = True
        self._on_change()


def _last_known(pod: Pod, what: Undecodable) -> Pod:
    """Return the pod with metadata and status of a later version, as far as these can be decoded.

    The pod's deletion is then noticed, and its status is written on top of what others have written.
    """
    rest, faults = rest_of(Pod, what)
    if rest is None or any(path.startswith("metadata") for path in faults):
        metadata = replace(pod.metadata, uid=what.uid or pod.metadata.uid, resource_version=what.resource_version)
        return replace(pod, metadata=metadata)
    status = pod.status if any(path.startswith("status") for path in faults) else rest.status
    return replace(pod, metadata=rest.metadata, status=status)


def _version(pod: Pod) -> int:
    version = pod.metadata.resource_version
    return int(version) if version.isdigit() else 0
