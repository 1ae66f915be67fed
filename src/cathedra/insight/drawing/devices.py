"""Picture of devices: nodes with their devices, partitions to scale, what is held as fill.

A cell is one physical device: a device alone, or a device with its partitions, which share a counter set. Blocked,
tainted and unusable devices have a pattern besides their colour. Every cell has its text as a title, which browsers
show on hover and screen readers read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, TypeAlias

from cathedra.printable import counted, printable

Model: TypeAlias = Mapping[str, Any]
"""An answer as plain values, as ``-o json`` prints it."""
Device: TypeAlias = Model
"""A DeviceEntry as plain values."""
WIDTH: Final = 800
SMALLEST, LARGEST = 200, 4000
"""Limits of the width in pixels."""
MOST_CELLS: Final = 20_000
"""Cells of a picture: a file of some megabytes. Devices beyond are counted below it."""
_SIZES: Final = ((60, 30, 60), (400, 20, 44), (3000, 13, 26), (MOST_CELLS, 7, 12))
"""Largest number of cells → the size of a cell, and of one with partitions."""
_LEGEND, _LABEL, _PAD = 30, 15, 8
_BAR: Final = 0.42
"""Height of the bar of what is held above the lanes of partitions, as a fraction of the cell."""
_LETTER: Final = 6.6
"""Average width of a letter of the labels."""
_REST: Final = ("free", "shared", "blocked", "tainted", "unusable", "held", "gone")


@dataclass
class _Cell:
    """Devices that share a counter set, or one device."""

    devices: list[Device] = field(default_factory=list)


def devices_svg(found: Model, width: int = WIDTH, lit: Mapping[str, str] | None = None) -> str:
    """Return the picture of a DeviceList. ``lit`` are devices with a frame: «new», or «old» for a dashed one."""
    picture = _Picture(found["devices"], max(SMALLEST, min(width, LARGEST)), lit or {})
    return picture.svg()


class _Picture:
    def __init__(self, devices: Sequence[Device], width: int, lit: Mapping[str, str]) -> None:
        self.width, self.lit, self.devices = width, lit, devices
        nodes = _by_node(devices)
        cells = sum(map(len, nodes.values()))
        self.size, self.tall = next(
            (plain, parted) for most, plain, parted in _SIZES if cells <= most or most == MOST_CELLS
        )
        self.nodes: dict[str, list[_Cell]] = {}
        self.left_out = 0
        drawn = 0
        for name, members in nodes.items():
            if drawn >= MOST_CELLS:
                self.left_out += sum(len(one.devices) for one in members)
                continue
            self.nodes[name] = members
            drawn += len(members)

    def svg(self) -> str:
        legend, below = self._legend()
        body, height = self._body(below)
        if self.left_out:
            height += 18
            body.append(
                f'<text x="{_PAD}" y="{height - 6}" font-size="12">and {counted(self.left_out, "device")} more</text>'
            )
        title = f"{counted(len(self.devices), 'device')} on {counted(len(_by_node(self.devices)), 'node')}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="cathedra-devices" role="img" aria-label="{_text(title)}" '
            f'viewBox="0 0 {self.width} {height}" width="{self.width}" height="{height}">'
            f"<style>{style_sheet('.cathedra-devices')}</style>"
            f'<rect width="{self.width}" height="{height}" fill="var(--paper)"/>{"".join(legend)}{"".join(body)}</svg>'
        )

    def _legend(self) -> tuple[list[str], int]:
        counts = {state: sum(one["state"] == state for one in self.devices) for state in STATES}
        parts, x, y = [], _PAD, 8
        for state, (colour, word) in STATES.items():
            if not counts[state]:
                continue
            text = f"{counts[state]:,} {word}"
            long = 22 + len(text) * _LETTER + 10
            if x > _PAD and x + long > self.width:
                x, y = _PAD, y + 20
            parts.append(f'<rect x="{x}" y="{y}" width="13" height="13" fill="{colour}"/>')
            parts.append(_pattern(state, x, y, 13))
            parts.append(f'<text x="{x + 18}" y="{y + 11}" font-size="12">{text}</text>')
            x += round(long)
        return parts, y + _LEGEND - 8

    def _body(self, y: int) -> tuple[list[str], int]:
        parts: list[str] = []
        x, tall = _PAD, 0
        for name, cells in self.nodes.items():
            size = self.tall if any(len(one.devices) > 1 for one in cells) else self.size
            gap = max(2, size // 8)
            # A few nodes have their devices in one row; many have blocks of eight.
            row = max(1, min(len(cells), 8 if len(cells) <= 16 else 16, (self.width - 2 * _PAD + gap) // (size + gap)))
            label = _LABEL if size >= 12 else 0
            wide = max(row * (size + gap) - gap, min(round(len(name) * _LETTER), 120) if label else 0)
            high = label + -(-len(cells) // row) * (size + gap)
            if x > _PAD and x + wide > self.width - _PAD:
                x, y, tall = _PAD, y + tall + _PAD, 0
            if label:
                shown = _cut(name, wide)
                parts.append(f'<text class="faint" x="{x}" y="{y + 10}" font-size="11">{_text(shown)}</text>')
            for number, cell in enumerate(cells):
                left, top = x + number % row * (size + gap), y + label + number // row * (size + gap)
                parts.append(self._cell(cell, left, top, size))
            x, tall = x + wide + 2 * _PAD, max(tall, high)
        return parts, y + tall + _PAD

    def _cell(self, cell: _Cell, x: float, y: float, size: int) -> str:
        devices = cell.devices
        lanes = max(one["lane"] for one in devices) + 1
        parted = lanes > 1 and size >= 24
        tall = size * _BAR if parted else size
        rest = _rest(devices)
        parts = [_rect(x, y, size, tall, STATES[rest][0])]
        bars = [one for one in devices if one["state"] in ("held", "shared", "gone")]
        for one in bars:
            colour = STATES["gone" if one["state"] == "gone" else "held"][0]
            for low, share in _shares(one):
                # A line of what lies below is left between two shares.
                gap = 1 if low and size >= 20 else 0
                high, top = tall * share - gap, y + tall * (1 - low - share)
                parts.append(_rect(x + one["at"] * size, top, one["size"] * size, high, colour))
        if sum(one["size"] for one in bars) < 1:
            parts.append(_pattern(rest, x, y, tall if parted else size, size))
        if parted:
            parts += self._lanes(devices, x, y + size * 0.46, size, size * 0.54 / lanes)
        if any(one["health"] not in ("", "Healthy") for one in devices):
            parts.append(_dot(x + size, y, size, UNHEALTHY))
        if any(_is_binding(one) for one in devices):
            parts.append(_dot(x + size, y + size, size, WAITING))
        kind = next((self.lit[_key(one)] for one in devices if _key(one) in self.lit), "")
        if kind:
            old = " old" if kind == "old" else ""
            parts.append(
                f'<rect class="mark{old}" x="{x - 1.5:g}" y="{y - 1.5:g}" width="{size + 3}" height="{size + 3}"/>'
            )
        return f"<g><title>{_text(cell_text(devices))}</title>{''.join(parts)}</g>"

    def _lanes(self, devices: Sequence[Device], x: float, top: float, size: int, high: float) -> Iterator[str]:
        for one in devices:
            wide = max(one["size"] * size - 1, 1)
            yield _rect(x + one["at"] * size, top + one["lane"] * high, wide, max(high - 1, 1), STATES[one["state"]][0])


def _shares(one: Device) -> Iterator[tuple[float, float]]:
    """Yield the beginning and the size of what each holder has of a device, from below."""
    shares = [holder["share"] for holder in one["holders"] if not holder["adminAccess"]]
    if one["state"] == "gone" or all(share == 1 for share in shares):
        yield 0.0, 1.0
        return
    low = 0.0
    for share in shares:
        yield low, min(share, 1 - low)
        low = min(low + share, 1.0)


def cell_text(devices: Sequence[Device]) -> str:
    """Return the description of a device, or of one with its partitions."""
    whole = max(devices, key=lambda one: (one["size"], -len(one["device"])))
    where = f" on {whole['node']}" if whole["node"] else ""
    if len(devices) == 1:
        return f"{whole['device']}{where}: {reason_text(whole)}"
    held = [one["device"] for one in devices if one["state"] in ("held", "shared")]
    free = sum(one["state"] == "free" for one in devices)
    taken = f"{len(held)} held ({', '.join(held[:4])})" if held else "none held"
    return f"{whole['device']}{where} with {counted(len(devices) - 1, 'partition')}: {taken}, {free} free"


def reason_text(device: Device) -> str:
    """Return the reason why a device cannot be had, or what is left of it."""
    claims = ", ".join(one["claim"] for one in device["holders"])
    match device["state"]:
        case "held":
            text = f"held by {claims}"
        case "shared":
            left = ", ".join(f"{name} {amount}" for name, amount in device["left"].items())
            text = f"held in part by {claims}; left: {left}"
        case "blocked":
            needs = ", ".join(f"{name} {amount}" for name, amount in device["counters"].items())
            text = f"blocked by {', '.join(device['blockedBy']) or 'other partitions'}: needs {needs}"
        case "tainted":
            text = f"tainted: {', '.join(device['taints'])}"
        case "unusable":
            text = "unusable: its pool is incomplete or invalid"
        case "gone":
            text = f"in no slice any more, held by {claims}"
        case _:
            text = "free"
    health = device["health"]
    return text if health in ("", "Healthy") else f"{text}; {health.lower()}"


def _by_node(devices: Iterable[Device]) -> dict[str, list[_Cell]]:
    found: dict[str, dict[tuple[str, str, str], _Cell]] = {}
    for one in devices:
        name = f"#{one['counterSet']}" if one["counterSet"] else one["device"]
        cells = found.setdefault(one["node"] or one["pool"], {})
        cells.setdefault((one["driver"], one["pool"], name), _Cell()).devices.append(one)
    return {node: list(cells.values()) for node, cells in found.items()}


def _rest(devices: Sequence[Device]) -> str:
    """Return the state of what is not held of a cell."""
    states = {one["state"] for one in devices}
    found = next(state for state in _REST if state in states)
    return "free" if found == "shared" else found


def _is_binding(one: Device) -> bool:
    conditions = {condition for holder in one["holders"] for condition in holder["conditions"]}
    return bool(one["holders"]) and any(f"{name}=True" not in conditions for name in one["bindingConditions"])


def _key(one: Device) -> str:
    return f"{one['driver']}/{one['pool']}/{one['device']}"


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{colour}"/>'


def _dot(x: float, y: float, size: int, colour: str) -> str:
    radius = max(size / 6, 1.5)
    return f'<circle cx="{x - radius:.2f}" cy="{y:.2f}" r="{radius:.2f}" fill="{colour}" stroke="#000"/>'


def _pattern(state: str, x: float, y: float, high: float, wide: float | None = None) -> str:
    """Return the lines of a state: a diagonal for blocked, a cross for tainted, a dash for unusable."""
    right, bottom = x + (high if wide is None else wide) - 1, y + high - 1
    if state == "unusable":
        path = f"M{x + 1:g} {y + high / 2:g}L{right:g} {y + high / 2:g}"
    elif state in ("blocked", "tainted"):
        path = f"M{x + 1:g} {bottom:g}L{right:g} {y + 1:g}"
        path += f"M{x + 1:g} {y + 1:g}L{right:g} {bottom:g}" if state == "tainted" else ""
    else:
        return ""
    return f'<path class="lines" d="{path}"/>'


def _cut(text: str, wide: float) -> str:
    most = max(3, int(wide / (_LETTER * 0.95)))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(text: str) -> str:
    """Return a text from outside for markup, without control characters, which XML does not allow."""
    return escape(printable(text[:2000]))


# Colours of pictures, after Okabe and Ito: they differ for people with any common colour blindness.
#
# The device map in the browser has the same (`page/static/colours.js`; a test compares them).

STATES: Final[Mapping[str, tuple[str, str]]] = {
    "free": ("#009e73", "free"),
    "held": ("#0072b2", "held"),
    "shared": ("#56b4e9", "held in part"),
    "blocked": ("#e69f00", "blocked"),
    "tainted": ("#cc79a7", "tainted"),
    "unusable": ("#8a8a8a", "unusable"),
    "gone": ("#d55e00", "gone"),
}
"""State of a device → colour, and the word of the legend."""
UNHEALTHY: Final = "#d55e00"
WAITING: Final = "#f0e442"
THEMES: Final[Mapping[str, Mapping[str, str]]] = {
    "light": {"paper": "#ffffff", "ink": "#1b1b1b", "faint": "#5c5c5c", "line": "#c9c9c9", "panel": "#f4f5f6"},
    "dark": {"paper": "#14171a", "ink": "#f0f0f0", "faint": "#a9b0b6", "line": "#3c434a", "panel": "#1d2125"},
}


def style_sheet(scope: str) -> str:
    """Return the rules for what is within ``scope``: in the reader's theme, light or dark."""
    light, dark = (
        ";".join(f"--{name}:{colour}" for name, colour in THEMES[theme].items()) for theme in ("light", "dark")
    )
    return (
        f"{scope}{{{light};background:var(--paper);color:var(--ink);font:13px/1.45 system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{{scope}{{{dark}}}}}"
        f"{scope} text{{fill:var(--ink);font-family:system-ui,sans-serif}}{scope} .faint{{fill:var(--faint)}}"
        f"{scope} .panel{{fill:var(--panel)}}{scope} .mark{{fill:none;stroke:var(--ink);stroke-width:2}}"
        f"{scope} .old{{stroke-dasharray:4 3}}{scope} .lines{{stroke:#000;stroke-opacity:.6;stroke-width:1.2}}"
    )
