"""An explanation as people read it, in lines of a given width."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from cathedra.insight.explanation.funnels import counted
from cathedra.insight.explanation.model import (
    ClaimReport,
    Explanation,
    HeldDevice,
    NodeGroup,
    Remedy,
    RequestFunnel,
    SelectorFunnel,
)
from cathedra.insight.reading.state import Note
from cathedra.printable import printable_values

__all__ = ["Style", "explanation_text", "filled", "names_text"]

Style = Callable[[str, str], str]
"""A text and what it is («title», «good», «bad», «dim») → the text as it is shown."""
GROUPS: Final = 4
"""Groups of nodes that are told; more are counted."""
_NAMES: Final = 4
_DEVICES: Final = 16
_MARKS: Final = {"fits": "good", "running": "good", "allocated": "good", "finished": "good"}


def plain(text: str, what: str) -> str:
    """Without any colour."""
    return text


def explanation_text(explanation: Explanation, width: int = 100, style: Style = plain) -> str:
    """The whole answer; lines are broken between words only."""
    explanation = printable_values(explanation)
    lines = [*_lines(explanation, width, style), *_notes(explanation.notes, width, style)]
    return "\n".join(line.rstrip() for line in lines)


def _lines(one: Explanation, width: int, style: Style) -> Iterator[str]:
    verdict = style(one.verdict, _MARKS.get(one.verdict, "bad"))
    yield f"{style(one.subject, 'title')}: {verdict}"
    # The causes follow one by one: the line above them need not begin with the first.
    prefix = one.summary.startswith(("fits on none of ", "does not fit on "))
    brief = one.summary.partition(": ")[0] if prefix and one.causes else one.summary
    if not (one.causes and brief == one.causes[0].text):
        yield from filled(brief, width, "  ")
    if one.fits and one.nodes > 1 and one.fits_on:
        yield from filled(names_text(one.fits_on), width, "    ")
    if one.causes:
        yield ""
        yield style("Why" if not one.fits else "Beside that", "title")
        several = one.nodes > 1
        for cause in one.causes:
            where = f" [{counted(cause.nodes, 'node')}]" if cause.nodes is not None and several else ""
            yield from filled(f"- {cause.text}{where}", width, "  ", "    ")
    if one.claims:
        yield ""
        yield style("Claims", "title")
        for claim in one.claims:
            yield from _claim(claim, width)
    if not one.fits and one.groups:
        yield ""
        yield style("Nodes", "title")
        shown = one.groups[:GROUPS]
        for group in shown:
            yield from _group(group, width, style)
        if len(one.groups) > GROUPS:
            rest = sum(len(group.nodes) for group in one.groups[GROUPS:])
            groups = counted(len(one.groups) - GROUPS, "group")
            yield f"  … and {counted(rest, 'node')} more in {groups}, further away from fitting"
    if not one.fits and not one.parts:
        yield from _changes(one.changes, width, style)
    for part in one.parts:
        yield ""
        yield from _lines(part, width, style)


def _claim(claim: ClaimReport, width: int) -> Iterator[str]:
    origin = "" if claim.origin == "named" else f" ({claim.origin})"
    prepared = {True: ", prepared", False: ", not prepared", None: ""}[claim.prepared]
    since = f" since {claim.since}" if claim.since else ""
    yield from filled(f"{claim.name}{origin}: {claim.state}{since}{prepared}", width, "  ", "    ")
    for request in claim.requests:
        yield from filled(request, width, "    ", "      ")
    if claim.reserved_for:
        yield from filled(f"used by {names_text(claim.reserved_for)}", width, "    ", "      ")
    for device in claim.devices[:_DEVICES]:
        yield from filled(_device(device), width, "    ", "      ")
    if len(claim.devices) > _DEVICES:
        yield f"    … and {len(claim.devices) - _DEVICES} devices more"


def _device(device: HeldDevice) -> str:
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
    yield from filled(head, width, "  ", "    ")
    for reason in group.outside:
        yield from filled(f"✗ {reason}", width, "    ", "      ")
    if group.refusal and not group.requests:
        yield from filled(f"✗ {group.refusal} (DynamicResources)", width, "    ", "      ")
    for request in group.requests:
        yield from _request(request, width, style)
    if group.fits:
        yield "    would fit, but the error on another node ends every attempt of the scheduler"


def _request(one: RequestFunnel, width: int, style: Style) -> Iterator[str]:
    wanted = "all" if one.all_devices else str(one.wanted)
    mark = "✗" if one.obstacle else "✓"
    yield from filled(f"{mark} request {one.request} of claim {one.claim}: {wanted} wanted", width, "    ", "      ")
    number = max((len(f"{step.left:,}") for step in one.steps), default=1)
    for step in one.steps:
        detail = f" – {step.detail}" if step.detail else ""
        text = f"{step.left:>{number},} {step.test}{detail}"
        yield from filled(text, width, "      ", " " * (7 + number))
        if step.test.startswith("of class"):
            yield from _selectors(one.selectors, "class ", width, number, style)
        elif step.test.startswith("matching"):
            yield from _selectors(one.selectors, "claim ", width, number, style)
    for constraint in one.constraints:
        yield from filled(constraint, width, " " * (7 + number), " " * (9 + number))
    if one.obstacle:
        yield from filled(f"→ {one.text}", width, "      ", "        ")


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
        yield from filled(f"selector #{one.index}: {', '.join(counts)}: {one.expression}", width, margin, margin + "  ")
        for name, count in one.attributes.items():
            text = f"attribute {name} is set on {counted(count, 'device')} of the cluster"
            yield from filled(text, width, margin + "  ")


def _changes(changes: Sequence[Remedy], width: int, style: Style) -> Iterator[str]:
    if not changes:
        return
    yield ""
    yield style("What would help, each by itself (tried)", "title")
    for number, change in enumerate(changes, 1):
        where = "" if change.kind == "add node" else f" → fits on {names_text(change.fits_on)}"
        yield from filled(f"{number}. {change.text}{where}", width, "  ", "     ")


def _notes(notes: Iterable[Note], width: int, style: Style) -> Iterator[str]:
    texts = list(dict.fromkeys(note.text for note in notes))
    if texts:
        yield ""
        yield style("Not known", "title")
        for text in texts:
            yield from filled(f"- {text}", width, "  ", "    ")


def names_text(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    shown = ", ".join(names[:_NAMES])
    more = len(names) - _NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def filled(text: str, width: int, margin: str = "", following: str | None = None) -> list[str]:
    """``text`` in lines of at most ``width`` columns, if its words are no longer."""
    following = margin if following is None else following
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=margin,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )
