"""Chronicles of a few writes."""

from __future__ import annotations

from typing import Any

from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.registry.layout import LogLayout
from cathedra.apiserver.storage.protocol import Write
from cathedra.faultsim.invariant import Invariant
from cathedra.faultsim.observation import Chronicle
from cathedra.kinds.served import all_definitions
from cathedra.releases import NEWEST, FeatureGates

DEFINITIONS = all_definitions(FeatureGates.for_release(NEWEST, {"GenericWorkload": True}))
LAYOUT = LogLayout(NEWEST)


class Story:
    """Writes of a store, one after the other, at the times that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.revision = 0
        self.chronicle = Chronicle(lambda: self.now, LAYOUT, DEFINITIONS)

    def write(self, plural: str, name: str, body: dict[str, Any] | None, *checks: Invariant) -> None:
        """Store an object of the namespace default (None: remove it), and show it to invariants."""
        definition = next(one for one in DEFINITIONS if one.plural == plural and one.stored_as is None)
        self.revision += 1
        value = None
        if body is not None:
            metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **body.pop("metadata", {})}
            value = encode(from_dict(definition.type, {**body, "metadata": metadata}))
        change = self.chronicle.written(Write(f"{LAYOUT.prefix(definition)}/default/{name}", self.revision, value))
        for check in checks:
            assert change is not None
            check.written(change)


def claim(*, device: str = "", users: tuple[str, ...] = ()) -> dict[str, Any]:
    """A claim with a device, reserved for pods."""
    result = {"request": "r", "driver": "d", "pool": "p", "device": device}
    allocation = {"allocation": {"devices": {"results": [result]}}} if device else {}
    reserved = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in users]
    return {"status": {**allocation, "reservedFor": reserved}}


def pod(*, node: str = "", phase: str = "Pending", group: str = "") -> dict[str, Any]:
    """A pod."""
    spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"spec": spec, "status": {"phase": phase}}


def job(*, succeeded: int, complete: bool = False) -> dict[str, Any]:
    """A job that wants two successes."""
    conditions = [{"type": "Complete", "status": "True"}] if complete else []
    return {
        "spec": {"completions": 2, "template": pod()},
        "status": {"succeeded": succeeded, "conditions": conditions},
    }
