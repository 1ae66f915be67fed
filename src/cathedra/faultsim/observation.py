"""Observed state of a simulated cluster: every durable write in order, decoded, and the actions of nodes.

The state is built from the durable writes of the stores, not from the responses of servers, so a faulty server cannot
hide its fault. All observations are also hashed: two runs are equal if their hashes are.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from cathedra.advisor.advisor import Advisor
from cathedra.api.core.core_v1 import Node, Pod, ResourceQuota
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.apiserver.registry.layout import Layout
from cathedra.apiserver.storage.protocol import Record, Write
from cathedra.kinds.definition import AnyDefinition
from cathedra.node.runtime.runtime import ContainerSpec

READ: Final = frozenset(
    {
        "events",
        "jobs",
        "nodes",
        "podgroups",
        "pods",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourcequotas",
        "resourceslices",
    }
)
"""Plurals whose objects are decoded."""
_SHOWN: Final = 400
"""Number of recent lines that are kept for a report."""

DeviceName = tuple[str, str, str]
"""Driver, pool and name of a device."""


class RecordedWrite(msgspec.Struct, frozen=True):
    """One durable write of a decoded object."""

    at: float
    revision: int
    plural: str
    name: tuple[str, str]
    """Namespace and name of the object."""
    old: Any | None
    new: Any | None


class StoredState:
    """The objects as they are stored."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], Any]] = {plural: {} for plural in sorted(READ)}
        self.revisions: dict[str, int] = {}
        """Revision of the last write of each key in the store that has a value."""
        self.before: dict[str, dict[int, int]] = {}
        """For each prefix: revision of a write → revision of the write before it, of the same resource."""
        self.counts: dict[str, int] = {}
        """For each prefix: number of objects."""
        self.last: dict[str, int] = {}
        """For each prefix: revision of its last write."""
        self.pod_uids: dict[str, tuple[str, str]] = {}
        """UID of every pod that ever existed → its name."""

    @property
    def pods(self) -> Mapping[tuple[str, str], Pod]:
        """Pods by namespace and name."""
        return self.objects["pods"]

    @property
    def claims(self) -> Mapping[tuple[str, str], ResourceClaim]:
        """Claims by namespace and name."""
        return self.objects["resourceclaims"]

    @property
    def nodes(self) -> Mapping[tuple[str, str], Node]:
        """Nodes by namespace ("") and name."""
        return self.objects["nodes"]

    @property
    def slices(self) -> Mapping[tuple[str, str], ResourceSlice]:
        """Slices by namespace ("") and name."""
        return self.objects["resourceslices"]

    @property
    def groups(self) -> Mapping[tuple[str, str], Any]:
        """Pod groups by namespace and name."""
        return self.objects["podgroups"]

    @property
    def quotas(self) -> Mapping[tuple[str, str], ResourceQuota]:
        """Quotas by namespace and name."""
        return self.objects["resourcequotas"]


class NodeView:
    """Observed state of one node, independent of the records of its agent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.prepared: dict[tuple[str, str], frozenset[DeviceName]] = {}
        """Driver and claim UID → devices that the driver has prepared."""
        self.running: dict[str, ContainerSpec] = {}
        """Containers that run, by ID."""
        self.claims_of: dict[str, frozenset[str]] = {}
        """Pod UID → UIDs of its claims when its first container started."""


class Chronicle:
    """Everything observed, in order: the hash, the last lines, and the state."""

    def __init__(self, now: Callable[[], float], layout: Layout, definitions: Sequence[AnyDefinition]) -> None:
        self.state = StoredState()
        self.nodes: dict[str, NodeView] = {}
        self.lines: deque[str] = deque(maxlen=_SHOWN)
        self.count = 0
        self._is_ended = False
        self.advisor: Advisor | None = None
        """The advisor that runs."""
        self.rivals = False
        """True if several schedulers work at the same time."""
        self.disturbances = 0
        """Number of faults that are active."""
        self.disturbed_at = float("-inf")
        """Time at which a fault last began or ended."""
        self._now = now
        self._layout = layout
        self._definitions = {layout.prefix(one): one for one in definitions if one.stored_as is None}
        self._prefixes = {(one.group, one.plural): prefix for prefix, one in self._definitions.items()}
        # Events are served in two groups and stored in one.
        for one in definitions:
            if one.stored_as is not None:
                self._prefixes[one.group, one.plural] = self._prefixes[one.stored_as.group, one.stored_as.resource]
        self._hash = hashlib.sha256()

    @contextmanager
    def disturbed(self) -> Iterator[None]:
        """Count a fault as active within the context."""
        self.disturbances += 1
        self.disturbed_at = self._now()
        try:
            yield
        finally:
            self.disturbances -= 1
            self.disturbed_at = self._now()

    def is_calm(self, seconds: float) -> bool:
        """Return True if no fault is active, and none was for that time."""
        return not self.disturbances and self._now() - self.disturbed_at > seconds

    def calm_since(self, moment: float) -> float:
        """Return the seconds that have passed without a fault since ``moment``."""
        return 0.0 if self.disturbances else self._now() - max(moment, self.disturbed_at)

    @property
    def digest(self) -> str:
        """Return the hash of all observations so far."""
        return self._hash.hexdigest()

    def note(self, text: str, content: bytes = b"") -> None:
        """Add a line, with content that is hashed and not shown."""
        if self._is_ended:
            return
        line = f"{self._now():.6f} {text}"
        self.count += 1
        self._hash.update(line.encode())
        self._hash.update(content)
        self.lines.append(line)

    def end(self, text: str) -> None:
        """Add the last line. Parts go on until the run notices its end, in an order that the plan does not decide."""
        self.note(text)
        self._is_ended = True

    def written(self, write: Write) -> RecordedWrite | None:
        """Add a durable write. Return it decoded, if its resource is decoded."""
        state = self.state
        self.note(f"{write.revision} {'-' if write.value is None else '+'} {write.key}", write.value or b"")
        prefix = self._prefix(write.key)
        last = state.last.get(prefix, 0)
        state.before.setdefault(prefix, {})[write.revision] = last
        state.last[prefix] = write.revision
        state.counts[prefix] = state.counts.get(prefix, 0) - (write.key in state.revisions)
        if write.value is None:
            state.revisions.pop(write.key, None)
        else:
            state.revisions[write.key] = write.revision
            state.counts[prefix] += 1
        definition = self._definitions.get(prefix)
        if definition is None or definition.plural not in READ:
            return None
        return self._decoded(definition, prefix, write)

    def _decoded(self, definition: AnyDefinition, prefix: str, write: Write) -> RecordedWrite:
        objects = self.state.objects[definition.plural]
        namespace, _, name = write.key[len(prefix) + 1 :].rpartition("/")
        key = (namespace, name)
        old = objects.get(key)
        new = None
        if write.value is None:
            objects.pop(key, None)
        else:
            new = self._layout.read(definition, Record(write.key, write.revision, write.value))
            objects[key] = new
            if definition.plural == "pods":
                self.state.pod_uids[new.metadata.uid] = key
        return RecordedWrite(self._now(), write.revision, definition.plural, key, old, new)

    def prefix_of(self, group: str, plural: str) -> str:
        """Return the prefix of the keys of a resource; "" if it is not known."""
        return self._prefixes.get((group, plural), "")

    def _prefix(self, key: str) -> str:
        # Keys are PREFIX/NAME or PREFIX/NAMESPACE/NAME.
        shorter = key.rpartition("/")[0]
        if shorter in self._definitions:
            return shorter
        return shorter.rpartition("/")[0]


def claim_names(pod: Pod) -> Iterator[str]:
    """Return the names of a pod's claims, as far as they exist."""
    recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or recorded.get(entry.name)
        if name:
            yield name


def ended(pod: Pod) -> bool:
    """Return True if the pod's containers have ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def allocated_devices(claim: ResourceClaim) -> Iterator[Any]:
    """Return the results of a claim's allocation that hold devices."""
    if claim.status.allocation is not None:
        yield from (result for result in claim.status.allocation.devices.results if not result.admin_access)
