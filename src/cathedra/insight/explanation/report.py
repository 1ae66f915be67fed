"""Report of `explain` as data and as text: the subject, the reasons why it does not fit, and remedies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.drawing.pages import explanation_html
from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION, Style, names_text, plain, wrapped
from cathedra.printable import counted, printable_values

Verdict: TypeAlias = str
"""«fits», «does not fit», «running», «finished», «waiting» (bound, and it does not run), «terminating» (being deleted,
and bound), «allocated»."""


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
        """Devices on which it is false."""
        return self.asked - self.passed - self.missing - self.errors


class RequestFunnel(msgspec.Struct, frozen=True, rename="camel"):
    """Devices that are left for one request, test by test, on equal nodes."""

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
    """Effects of the constraints on the devices that are left."""
    obstacle: str
    """The first test that leaves too few; "" if the request fits by itself."""
    text: str
    shortage: str = ""
    """Shortage of constraints of one form, if that is decisive; the same for all their requests."""


_OF_POD: Final = frozenset({"quota", "consumers", "pod group", "being deleted"})
"""Kinds of causes that keep a pod waiting whatever its nodes have."""


class NodeGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes on which the answer is the same."""

    nodes: tuple[str, ...]
    fits: bool
    outside: tuple[str, ...] = ()
    """Refusals of these nodes besides the devices, in the scheduler's words, with the plugin's name."""
    refusal: str = ""
    """Reason for which DynamicResources refuses the node."""
    requests: tuple[RequestFunnel, ...] = ()


class Cause(msgspec.Struct, frozen=True, rename="camel"):
    """One obstacle for a pod or claim."""

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
    commands: tuple[str, ...] = ()
    """The kubectl commands that carry it out, in order; none for manifests and for a further node."""


class HeldDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device that a claim has."""

    device: str
    """The device as «driver/pool/device»."""
    request: str
    attributes: Mapping[str, str] = {}
    consumed: Mapping[str, str] = {}
    share_id: str = ""
    admin_access: bool = False
    exists: bool = True
    """True if some slice has it."""
    taints: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()


class ClaimReport(msgspec.Struct, frozen=True, rename="camel"):
    """A claim: its origin, its devices and its consumers."""

    name: str
    """The claim as «namespace/name»."""
    origin: str
    """«named», «template NAME», «extended resources»."""
    state: str
    """As kubectl shows it: «pending», «allocated,reserved», …; «not created» if there is none yet."""
    requests: tuple[str, ...] = ()
    since: str = ""
    """Time of the allocation, if known."""
    prepared: bool | None = None
    """True if the node has prepared it; None if that is not known."""
    reserved_for: tuple[str, ...] = ()
    devices: tuple[HeldDevice, ...] = ()
    preferences: tuple[str, ...] = ()
    """Its preferred constraints (JointPlacement), with whether they hold, or on how many nodes they can hold."""


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """The reason why something does not fit, the nodes on which it does, or what it has."""

    subject: str
    """«pod NAMESPACE/NAME» and so on."""
    verdict: Verdict
    summary: str
    causes: tuple[Cause, ...] = ()
    claims: tuple[ClaimReport, ...] = ()
    fits_on: tuple[str, ...] = ()
    nodes: int = 0
    """Number of nodes that were tried."""
    groups: tuple[NodeGroup, ...] = ()
    changes: tuple[Remedy, ...] = ()
    notes: tuple[Note, ...] = ()
    parts: tuple[Explanation, ...] = ()
    """Of a workload or a file: one for each sort of pod."""

    @property
    def fits(self) -> bool:
        """True if there is no problem: it fits, or it runs, or it has run."""
        good = self.verdict in ("fits", "running", "finished", "allocated")
        return good and all(part.fits for part in self.parts)

    def flat(self) -> Iterator[Explanation]:
        """Return this one and its parts."""
        yield self
        for part in self.parts:
            yield from part.flat()

    def to_dict(self) -> JSONObject:
        """Return the answer as plain values, by the schema in docs/schemas; fields that are empty are there, too."""
        return {"apiVersion": API_VERSION, "kind": "Explanation", **_plain(self)}

    def _repr_html_(self) -> str:
        return explanation_html(self.to_dict())

    def __repr__(self) -> str:
        return f"Explanation({self.subject!r}, {self.verdict!r}, {self.summary!r})"

    def __str__(self) -> str:
        return explanation_text(self, width=160)


class CauseGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Subjects that wait for the same reason."""

    verdict: Verdict
    cause: Cause
    subjects: tuple[str, ...]


class ExplanationOverview(msgspec.Struct, frozen=True, rename="camel"):
    """Several subjects, or all that waits, grouped by cause; the largest group first."""

    groups: tuple[CauseGroup, ...]
    where: str
    """The namespace that was searched, or «all namespaces»; "" if the subjects were named."""
    notes: tuple[Note, ...] = ()

    @property
    def fits(self) -> bool:
        """True if nothing waits."""
        return all(group.verdict in _MARKS for group in self.groups)

    def to_dict(self) -> JSONObject:
        """Return the answer as plain values, by the schema in docs/schemas."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "ExplanationOverview", "fits": self.fits, **found}

    def _repr_html_(self) -> str:
        return explanation_html(self.to_dict())

    def __str__(self) -> str:
        return overview_text(self, width=160)


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
            "commands": list(change.commands),
        }
        for change in one.changes
    ]
    found["parts"] = [_plain(part) for part in one.parts]
    return found


# --- text


GROUPS: Final = 4
"""Largest number of described node groups; more are counted."""
_DEVICES: Final = 16
_RUNNING: Final = 8
"""Largest number of running pods of a workload that have a line."""
_MARKS: Final = {"fits": "good", "running": "good", "allocated": "good", "finished": "good"}


def explanation_text(explanation: Explanation, width: int = 100, style: Style = plain) -> str:
    """Return the whole answer; lines are broken between words only."""
    explanation = printable_values(explanation)
    lines = [*_lines(explanation, width, style), *_notes(explanation.notes, width, style)]
    return "\n".join(line.rstrip() for line in lines)


def overview_text(overview: ExplanationOverview, width: int = 100, style: Style = plain) -> str:
    """Return a line for each cause, with the subjects that wait for it."""
    overview = printable_values(overview)
    count = sum(len(group.subjects) for group in overview.groups)
    title = f"{counted(count, 'object')} wait{'s' if count == 1 else ''} in {overview.where}" if count else ""
    lines = [style(title or f"nothing waits in {overview.where}", "title")] if overview.where else []
    for group in overview.groups:
        number = f"{len(group.subjects):,} × " if len(group.subjects) > 1 else ""
        where = f" [{counted(group.cause.nodes, 'node')}]" if group.cause.nodes is not None else ""
        first, *more = wrapped(f"{number}{group.verdict}: {group.cause.text}{where}", width, "", "    ")
        lines += [first.replace(group.verdict, style(group.verdict, _MARKS.get(group.verdict, "bad")), 1), *more]
        lines += wrapped(names_text(group.subjects), width, "    ")
    lines += _notes(overview.notes, width, style)
    return "\n".join(line.rstrip() for line in lines)


def _lines(one: Explanation, width: int, style: Style) -> Iterator[str]:
    verdict = style(one.verdict, _MARKS.get(one.verdict, "bad"))
    yield f"{style(one.subject, 'title')}: {verdict}"
    # The causes are listed below, so the summary need not repeat the first.
    prefix = one.summary.startswith(("fits on none of ", "does not fit on "))
    brief = one.summary.partition(": ")[0] if prefix and one.causes else one.summary
    if not (one.causes and brief == one.causes[0].text):
        yield from wrapped(brief, width, "  ")
    if one.fits and one.nodes > 1 and one.fits_on:
        yield from wrapped(names_text(one.fits_on), width, "    ")
    if one.causes:
        yield ""
        yield style("Why" if not one.fits else "Beside that", "title")
        several = one.nodes > 1
        for cause in one.causes:
            where = f" [{counted(cause.nodes, 'node')}]" if cause.nodes is not None and several else ""
            yield from wrapped(f"- {cause.text}{where}", width, "  ", "    ")
    if one.claims:
        yield ""
        yield style("Claims", "title")
        for claim in one.claims:
            yield from _claim(claim, width)
    if not one.fits and one.groups:
        yield from _node_lines(one, width, style)
    if not one.fits and not one.parts:
        yield from _changes(one.changes, width, style)
    yield from _part_lines(one, width, style)


def _node_lines(one: Explanation, width: int, style: Style) -> Iterator[str]:
    yield ""
    yield style("Nodes", "title")
    waits = any(cause.kind in _OF_POD for cause in one.causes)
    why = "the pod waits" if waits else "the error on another node ends every attempt of the scheduler"
    for group in one.groups[:GROUPS]:
        yield from _group(group, width, style)
        if group.fits:
            yield f"    would fit, but {why}"
    if len(one.groups) > GROUPS:
        rest = sum(len(group.nodes) for group in one.groups[GROUPS:])
        groups = counted(len(one.groups) - GROUPS, "group")
        yield f"  … and {counted(rest, 'node')} more in {groups}, further away from fitting"


def _part_lines(one: Explanation, width: int, style: Style) -> Iterator[str]:
    running = [part for part in one.parts if part.verdict in ("running", "finished")]
    # Pods of a workload have equal claims, so of those that run one is shown whole.
    others = running[1:]
    for part in one.parts:
        if not any(part is other for other in others):
            yield ""
            yield from _lines(part, width, style)
    if others:
        yield ""
        yield f"{counted(len(others), 'other pod')} with a node"
        for part in others[:_RUNNING]:
            yield from wrapped(f"{part.subject.partition(' ')[2]} {part.summary}", width, "  ", "    ")
        if len(others) > _RUNNING:
            yield f"  … and {len(others) - _RUNNING:,} more"


def _claim(claim: ClaimReport, width: int) -> Iterator[str]:
    origin = "" if claim.origin == "named" else f" ({claim.origin})"
    prepared = {True: ", prepared", False: ", not prepared", None: ""}[claim.prepared]
    since = f" since {claim.since}" if claim.since else ""
    yield from wrapped(f"{claim.name}{origin}: {claim.state}{since}{prepared}", width, "  ", "    ")
    for request in claim.requests:
        yield from wrapped(request, width, "    ", "      ")
    for preference in claim.preferences:
        yield from wrapped(preference, width, "    ", "      ")
    if claim.reserved_for:
        yield from wrapped(f"used by {names_text(claim.reserved_for)}", width, "    ", "      ")
    for device in claim.devices[:_DEVICES]:
        yield from wrapped(_device_line(device), width, "    ", "      ")
    if len(claim.devices) > _DEVICES:
        yield f"    … and {len(claim.devices) - _DEVICES} devices more"


def _device_line(device: HeldDevice) -> str:
    parts = [f"{device.request} = {device.device}"]
    if not device.exists:
        parts.append("no slice has it any more")
    if device.admin_access:
        parts.append("admin access")
    if device.consumed:
        parts.append(" ".join(f"{name}={amount}" for name, amount in device.consumed.items()))
    if device.taints:
        parts.append(f"tainted {', '.join(device.taints)}")
    parts += device.conditions
    attributes = " ".join(f"{name}={value}" for name, value in device.attributes.items() if "/" not in name)
    return ", ".join(parts) + (f" ({attributes})" if attributes else "")


def _group(group: NodeGroup, width: int, style: Style) -> Iterator[str]:
    head = f"{counted(len(group.nodes), 'node')}: {names_text(group.nodes)}"
    if len(group.nodes) > 1 and any(request.holders for request in group.requests):
        head += f" (holders are those of {group.nodes[0]})"
    yield from wrapped(head, width, "  ", "    ")
    for reason in group.outside:
        yield from wrapped(f"✗ {reason}", width, "    ", "      ")
    if group.refusal and not group.requests:
        yield from wrapped(f"✗ {group.refusal} (DynamicResources)", width, "    ", "      ")
    for request in group.requests:
        yield from _request_lines(request, width, style)


def _request_lines(one: RequestFunnel, width: int, style: Style) -> Iterator[str]:
    wanted = "all" if one.all_devices else str(one.wanted)
    mark = "✗" if one.obstacle else "✓"
    yield from wrapped(f"{mark} request {one.request} of claim {one.claim}: {wanted} wanted", width, "    ", "      ")
    number = max((len(f"{step.left:,}") for step in one.steps), default=1)
    for step in one.steps:
        detail = f" – {step.detail}" if step.detail else ""
        text = f"{step.left:>{number},} {step.test}{detail}"
        yield from wrapped(text, width, "      ", " " * (7 + number))
        if step.test.startswith("of class"):
            yield from _selectors(one.selectors, "class ", width, number, style)
        elif step.test.startswith("matching"):
            yield from _selectors(one.selectors, "claim ", width, number, style)
    for constraint in one.constraints:
        yield from wrapped(constraint, width, " " * (7 + number), " " * (9 + number))
    if one.obstacle:
        yield from wrapped(f"→ {one.text}", width, "      ", "        ")


def _selectors(
    selectors: Sequence[SelectorFunnel], origin: str, width: int, number: int, style: Style
) -> Iterator[str]:
    margin = " " * (7 + number)
    for one in selectors:
        if not one.origin.startswith(origin) or one.passed == one.asked:
            continue
        counts = [f"{one.passed:,} yes", f"{one.failed:,} no"]
        if one.missing:
            counts.append(f"{one.missing:,} error (something is not set)")
        if one.errors:
            counts.append(f"{one.errors:,} error")
        yield from wrapped(
            f"selector #{one.index}: {', '.join(counts)}: {one.expression}", width, margin, margin + "  "
        )
        for name, count in one.attributes.items():
            text = f"attribute {name} is set on {counted(count, 'device')} of the cluster"
            yield from wrapped(text, width, margin + "  ")


def _changes(changes: Sequence[Remedy], width: int, style: Style) -> Iterator[str]:
    if not changes:
        return
    yield ""
    yield style("What would help, each by itself (tried)", "title")
    for number, change in enumerate(changes, 1):
        where = "" if change.kind == "add node" else f" → fits on {names_text(change.fits_on)}"
        yield from wrapped(f"{number}. {change.text}{where}", width, "  ", "     ")
        # Commands are not broken into lines: they are there to be copied.
        yield from (f"     $ {command}" for command in change.commands)


def _notes(notes: Iterable[Note], width: int, style: Style) -> Iterator[str]:
    texts = list(dict.fromkeys(note.text for note in notes))
    if texts:
        yield ""
        yield style("Not known", "title")
        for text in texts:
            yield from wrapped(f"- {text}", width, "  ", "    ")
