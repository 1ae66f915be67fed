"""Cluster events: changes that may make a waiting pod schedulable, and the plugins that register for them.

A refused pod waits until an event may change the result of a plugin that refused it. Each plugin registers for events,
with a hint that compares the change with the pod (docs/spec/scheduling.md §3).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.remembering import remembered


class EventResource(enum.Enum):
    """Kind of the changed object."""

    ASSIGNED_POD = "AssignedPod"
    """A pod that has a node already."""
    TARGET_POD = "TargetPod"
    """The waiting pod itself."""
    UNSCHEDULED_POD = "UnscheduledPod"
    """Another pod that waits."""
    NODE = "Node"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    RESOURCE_CLASS = "ResourceClass"
    POD_SCHEDULING_CONTEXT = "PodSchedulingContext"
    RESOURCE_CLAIM_PARAMETERS = "ResourceClaimParameters"
    RESOURCE_CLASS_PARAMETERS = "ResourceClassParameters"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    PERSISTENT_VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    POD_GROUP = "PodGroup"
    COMPOSITE_POD_GROUP = "CompositePodGroup"
    RESOURCE_QUOTA = "ResourceQuota"
    ANY = "*"

    __hash__ = object.__hash__
    """Members are the same where they are equal; an enumeration's own hash is a call of Python for each event."""


class Action(enum.Flag):
    """Kind of the change."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE = enum.auto()
    """An update without a finer name below."""
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_CLAIM = enum.auto()


class ClusterEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: ``old`` is absent for an addition, ``new`` for a deletion.

    ``actions`` names everything that changed; a node update may touch labels and taints at once.
    """

    resource: EventResource
    actions: Action
    old: Any = None
    new: Any = None

    @property
    def label(self) -> str:
        """Return the event as kube-scheduler's metrics name it. Of several actions the first one counts."""
        # The number, because a flag's own hash is a call of Python.
        return _label(self.resource, self.actions._value_)


@remembered("scheduler.framework.event_labels", size=256)
def _label(resource: EventResource, actions: int) -> str:
    group = _GROUPS.get(resource)
    kind = f"{group}/{resource.value}" if group else resource.value
    return kind + "".join(word.capitalize() for word in _word(actions).split("_"))


def _word(actions: int) -> str:
    """Return the name of the lowest flag."""
    word = Action(actions & -actions).name or ""
    return _WORDS.get(word, word)


_GROUPS: Final[Mapping[EventResource, str]] = {
    EventResource.RESOURCE_CLAIM: "resource.k8s.io",
    EventResource.RESOURCE_SLICE: "resource.k8s.io",
    EventResource.DEVICE_CLASS: "resource.k8s.io",
    EventResource.STORAGE_CLASS: "storage.k8s.io",
    EventResource.CSI_NODE: "storage.k8s.io",
    EventResource.POD_GROUP: "scheduling.k8s.io",
    EventResource.COMPOSITE_POD_GROUP: "scheduling.k8s.io",
}
_WORDS: Final[Mapping[str, str]] = {
    Action.UPDATE_POD_GATES_ELIMINATED.name or "": "UPDATE_POD_SCHEDULING_GATES_ELIMINATED",
    Action.UPDATE_POD_GENERATED_CLAIM.name or "": "UPDATE_POD_GENERATED_RESOURCE_CLAIM",
}


Hint = Callable[[Pod, ClusterEvent], bool]
"""Return True if the change may make the waiting pod schedulable."""

Affected = Callable[[ClusterEvent], tuple[Collection[str], bool]]
"""Returns the UIDs of the pods to which a changed object belongs, and True if the change may concern others as well.

These others were tried. A pod that the plugin keeps out of the queue waits for changes of its own objects.
"""


class EventRegistration(msgspec.Struct, frozen=True):
    """A plugin's interest in a kind of change."""

    resource: EventResource
    actions: Action
    hint: Hint | None = None
    """None: every such change may help."""
    affected: Affected | None = None
    """Returns the pods for which the hint is called; None: it is called for every pod that the plugin refused."""
    as_pre_enqueue: bool = False
    """True if the hint returns True where the plugin's PreEnqueue lets the pod in. A pod that the plugin keeps out of
    the queue then needs no hint, because PreEnqueue is called next."""

    def matches(self, change: ClusterEvent) -> bool:
        """Return True if the change is of the registered kind."""
        # The flags' numbers: combining the flags themselves makes another flag, in seven calls.
        return self.resource is change.resource and self.actions._value_ & change.actions._value_ != 0
