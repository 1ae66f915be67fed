"""Sentences of events: the reason why something waits, and the smallest change that would help."""

from __future__ import annotations

import re
from typing import Final

from cathedra.insight.explanation.report import Explanation
from cathedra.insight.rendering import names_text
from cathedra.printable import counted

HELP: Final = ". Would help (tried): "
"""Words between the reason and the change that would help."""
_FIGURES: Final = re.compile(r"\d+")
_LISTS: Final = re.compile(r" ?\(held by (?:[^()]|\(\d+\))*\)| ?\[[^\[\]]*\]")
"""Holders, with what each has, and numbers of nodes: they differ between two states of one reason as figures do."""


def reason_text(found: Explanation) -> str:
    """Return the first obstacle of an explanation, or where it fits."""
    if found.fits or not found.causes:
        return _general(found.summary, found)
    cause = found.causes[0]
    where = f" [{cause.nodes:,} of {counted(found.nodes, 'node')}]" if cause.nodes and found.nodes > 1 else ""
    return _general(cause.text, found) + where


def answer_text(found: Explanation) -> str:
    """Return the reason and the smallest change with which it would fit."""
    text = reason_text(found)
    if found.fits or not found.changes:
        return text
    change = found.changes[0]
    where = "" if change.kind == "add node" else f" (then fits on {names_text(change.fits_on[:2])})"
    return f"{text}{HELP}{_general(change.text, found)}{where}"


def _general(text: str, found: Explanation) -> str:
    """Replace the names of claims that were made for one pod: the text is true for its equal siblings too."""
    for claim in found.claims:
        if claim.origin != "named":
            text = text.replace(claim.name, f"{claim.name.partition('/')[0]}/{claim.origin}")
    return text


def shape_of(text: str) -> str:
    """Return a text without what changes while its reason stays: figures, lists of holders and nodes, and remedies."""
    # One device, or several: a figure too.
    return _FIGURES.sub("#", _LISTS.sub("", text.partition(HELP)[0])).replace("devices", "device")
