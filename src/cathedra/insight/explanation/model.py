"""The answer of `explain`, as data: what is asked about, why it does not fit, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.reading.state import Note

__all__ = [
    "API_VERSION",
    "Cause",
    "ClaimReport",
    "Edit",
    "Explanation",
    "FunnelStep",
    "HeldDevice",
    "NodeGroup",
    "Remedy",
    "RequestFunnel",
    "SelectorFunnel",
    "Verdict",
]

API_VERSION: Final = "cathedra.dev/v1"

Verdict: TypeAlias = str
"""«fits», «does not fit», «running», «finished», «waiting» (bound, and not running yet), «allocated»."""


class FunnelStep(msgspec.Struct, frozen=True, rename="camel"):
    """One test of a request: how many devices are left after it."""

    test: str
    left: int
    lost: int
    detail: str = ""


class SelectorFunnel(msgspec.Struct, frozen=True, rename="camel"):
    """One selector and the devices that reached it."""

    origin: str
    """«class NAME» or «claim NAMESPACE/NAME»."""
    index: int
    expression: str
    asked: int
    passed: int
    missing: int
    """Devices on which it fails because something is not set."""
    errors: int
    """Devices on which it fails otherwise."""
    attributes: Mapping[str, int] = {}
    """Attribute or capacity that it reads → devices in reach that have it."""

    @property
    def failed(self) -> int:
        """Devices to which it says no."""
        return self.asked - self.passed - self.missing - self.errors


class RequestFunnel(msgspec.Struct, frozen=True, rename="camel"):
    """What is left of the devices for one request, test by test, on nodes that are alike."""

    claim: str
    request: str
    device_class: str
    wanted: int
    all_devices: bool
    steps: tuple[FunnelStep, ...]
    selectors: tuple[SelectorFunnel, ...]
    holders: Mapping[str, int]
    taints: Mapping[str, int]
    constraints: tuple[str, ...]
    """What the constraints make of the devices that are left."""
    obstacle: str
    """The first test that leaves too few; "" if the request fits by itself."""
    text: str
    shortage: str = ""
    """Shortage of constraints of one form, if that is decisive; the same for all their requests."""


class NodeGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes on which the answer is the same."""

    nodes: tuple[str, ...]
    fits: bool
    outside: tuple[str, ...] = ()
    """What refuses these nodes beside the devices, in the scheduler's words, with the plugin's name."""
    refusal: str = ""
    """What DynamicResources says."""
    requests: tuple[RequestFunnel, ...] = ()


class Cause(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that stands in the way."""

    kind: str
    """A word for programs, as «missing class», «allocated», «node taints»."""
    text: str
    nodes: int | None = None
    """On how many nodes; None if it holds everywhere."""


class Edit(msgspec.Struct, frozen=True, rename="camel"):
    """One field with another value."""

    object: str
    path: str
    old: Any
    new: Any


class Remedy(msgspec.Struct, frozen=True, rename="camel"):
    """A change with which it fits; tried."""

    kind: str
    text: str
    fits_on: tuple[str, ...]
    """The nodes on which it fits then."""
    edits: tuple[Edit, ...] = ()
    set: tuple[KubeObject, ...] = ()
    """The objects as they are after the change, to be applied."""
    removed: tuple[KubeObject, ...] = ()
    """The objects that are to go."""


class HeldDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device that a claim has."""

    device: str
    """«driver/pool/device»."""
    request: str
    attributes: Mapping[str, str] = {}
    consumed: Mapping[str, str] = {}
    share_id: str = ""
    admin_access: bool = False
    exists: bool = True
    """Whether some slice still has it."""
    taints: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()


class ClaimReport(msgspec.Struct, frozen=True, rename="camel"):
    """A claim: where it comes from, what it has, who uses it."""

    name: str
    """«namespace/name»."""
    origin: str
    """«named», «template NAME», «extended resources»."""
    state: str
    """As kubectl shows it: «pending», «allocated,reserved», …; «not created» if there is none yet."""
    requests: tuple[str, ...] = ()
    since: str = ""
    """When it was allocated, if that is known."""
    prepared: bool | None = None
    """Whether the node has prepared it; None if that is not known."""
    reserved_for: tuple[str, ...] = ()
    devices: tuple[HeldDevice, ...] = ()


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Why something does not fit, on which nodes it does, or what it has."""

    subject: str
    """«pod NAMESPACE/NAME» and the like."""
    verdict: Verdict
    summary: str
    causes: tuple[Cause, ...] = ()
    claims: tuple[ClaimReport, ...] = ()
    fits_on: tuple[str, ...] = ()
    nodes: int = 0
    """How many nodes were looked at."""
    groups: tuple[NodeGroup, ...] = ()
    changes: tuple[Remedy, ...] = ()
    notes: tuple[Note, ...] = ()
    parts: tuple[Explanation, ...] = ()
    """Of a workload or a file: one for each sort of pod."""

    @property
    def fits(self) -> bool:
        """Whether there is nothing to complain about: it fits, or it runs, or it has run."""
        good = self.verdict in ("fits", "running", "finished", "allocated")
        return good and all(part.fits for part in self.parts)

    def flat(self) -> Iterator[Explanation]:
        """This one and its parts."""
        yield self
        for part in self.parts:
            yield from part.flat()

    def to_dict(self) -> JSONObject:
        """The answer as plain values, by the schema in docs/schemas; fields that are empty are there, too."""
        return {"apiVersion": API_VERSION, "kind": "Explanation", **_plain(self)}

    def __str__(self) -> str:
        # Not needed for programs, who read the fields.
        from cathedra.insight.explanation.text import explanation_text

        return explanation_text(self, width=160)


def _plain(one: Explanation) -> JSONObject:
    fields = {
        name: getattr(one, attribute)
        for attribute, name in zip(one.__struct_fields__, one.__struct_encode_fields__, strict=True)
        if attribute not in ("changes", "parts")
    }
    found: JSONObject = msgspec.to_builtins({"fits": one.fits, **fields})
    found["changes"] = [
        {
            "kind": change.kind,
            "text": change.text,
            "fitsOn": list(change.fits_on),
            "edits": msgspec.to_builtins(change.edits),
        }
        for change in one.changes
    ]
    found["parts"] = [_plain(part) for part in one.parts]
    return found
