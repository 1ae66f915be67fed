"""Pictures of the concept pages, drawn as SVG in the colours of the device map: ``python -m tools.handbook.pictures``.

They are committed to ``docs/pictures``, so that the pages have them in the repository, too. A picture follows the
reader's theme, is 480 units wide so that its texts can be read on a phone, and has a title and a description for screen
readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from cathedra.insight.drawing.devices import STATES, THEMES

__all__ = ["FOLDER", "PICTURES", "drawn"]

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
_WIDTH: Final = 480


class _Drawing:
    """Shapes of a picture, in the order in which they are drawn."""

    def __init__(self) -> None:
        self.shapes: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, title: str, *lines: str) -> None:
        """A frame with a bold title and lines of text below it."""
        self.shapes.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>')
        self.text(x + 10, y + 19, title, "bold")
        for number, line in enumerate(lines):
            self.text(x + 10, y + 36 + 16 * number, line, "faint")

    def text(self, x: int, y: int, text: str, style: str = "") -> None:
        named = f' class="{style}"' if style else ""
        self.shapes.append(f'<text{named} x="{x}" y="{y}">{escape(text)}</text>')

    def device(self, x: int, y: int, width: int, height: int, state: str, label: str = "") -> None:
        """A device or a part of one, in the colour of its state; a diagonal marks what is blocked."""
        self.shapes.append(f'<rect class="{state} edge" x="{x}" y="{y}" width="{width}" height="{height}"/>')
        if state in ("blocked", "tainted"):
            cross = f"M{x} {y + height}L{x + width} {y}" + (
                f"M{x} {y}L{x + width} {y + height}" if state == "tainted" else ""
            )
            self.shapes.append(f'<path class="mark" d="{cross}"/>')
        if label:
            style = "on light" if state == "held" else "on"
            self.shapes.append(
                f'<text class="{style}" x="{x + width // 2}" y="{y + height // 2 + 4}">{escape(label)}</text>'
            )

    def arrow(self, *points: tuple[int, int]) -> None:
        way = "L".join(f"{x} {y}" for x, y in points)
        self.shapes.append(f'<path class="arrow" d="M{way}" marker-end="url(#head)"/>')

    def legend(self, y: int, *states: str) -> None:
        x = 10
        for state in states:
            self.device(x, y, 14, 14, state)
            self.text(x + 20, y + 12, STATES[state][1], "faint")
            x += 44 + 7 * len(STATES[state][1])


def drawn(name: str) -> str:
    """Return a picture as SVG."""
    title, description, height, draw = PICTURES[name]
    drawing = _Drawing()
    draw(drawing)
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(title)}</title>',
        f'<desc id="d">{escape(description)}</desc>',
        f"<style>{_style()}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
        *drawing.shapes,
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def _style() -> str:
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in THEMES[theme].items()) for theme in THEMES)
    states = "".join(f".{state}{{fill:{colour}}}" for state, (colour, _) in STATES.items())
    return (
        f"svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}{states}"
        "text{fill:var(--ink);font:13px system-ui,sans-serif}.bold{font-weight:600}"
        ".faint{fill:var(--faint);font-size:12px}"
        ".on{fill:#000;text-anchor:middle;font-size:12px}.on.light{fill:#fff}.paper{fill:var(--paper)}"
        ".box{fill:var(--panel);stroke:var(--line)}.edge{stroke:var(--paper);stroke-width:1.5}"
        ".mark{stroke:#000;stroke-opacity:.6;stroke-width:1.2}.arrow{fill:none;stroke:var(--faint);stroke-width:1.5}"
        ".head{fill:var(--faint)}"
    )


def _claims(to: _Drawing) -> None:
    to.box(10, 10, 200, 62, "Pod train", "resourceClaims: gpus", "container uses gpus")
    to.box(270, 10, 200, 62, "ResourceClaim", "request gpus: 2 devices", "of class gpu, 40Gi or more")
    to.arrow((210, 40), (268, 40))
    to.box(270, 112, 200, 46, "DeviceClass gpu", "selector: driver is gpu…")
    to.arrow((370, 72), (370, 110))
    to.box(10, 112, 200, 46, "Driver on each node", "publishes what there is")
    to.box(10, 200, 460, 92, "ResourceSlices of node-0")
    to.arrow((110, 158), (110, 198))
    to.arrow((370, 158), (370, 198))
    for number, state in enumerate(("held", "held", "free", "free")):
        to.device(20 + 112 * number, 230, 104, 50, state, f"gpu-{number}")
    to.legend(306, "held", "free")


def _walk(to: _Drawing) -> None:
    steps = (
        ("Claim controller", "creates the claim from the pod's template"),
        ("Scheduler: filter", "tries the allocator on every node"),
        ("Scheduler: reserve and bind", "writes the allocation, then binds the pod"),
        ("Node agent", "calls the driver: prepare the claim's devices"),
        ("Driver", "sets up devices, writes a CDI document"),
        ("Container runtime", "starts the containers with the devices"),
    )
    for number, (title, what) in enumerate(steps):
        y = 10 + 66 * number
        to.box(60, y, 410, 48, title, what)
        to.shapes.append(f'<circle class="held" cx="30" cy="{y + 24}" r="14"/>')
        to.shapes.append(f'<text class="on light" x="30" y="{y + 28}">{number + 1}</text>')
        if number:
            to.arrow((265, y - 18), (265, y - 2))


def _partitions(to: _Drawing) -> None:
    to.text(10, 24, "Counters of one GPU: 8 memory slices", "bold")
    for number in range(8):
        to.device(10 + 57 * number, 36, 57, 26, "held" if number < 4 else "free", str(number))
    to.text(10, 92, "Devices that consume them", "bold")
    rows = (("whole GPU", 0, 8, "blocked"), ("half", 0, 4, "held"), ("half", 4, 4, "free"))
    for number, (name, start, size, state) in enumerate(rows[1:]):
        to.device(10 + 57 * start, 104, 57 * size, 30, state, f"{name} {number}")
    name, start, size, state = rows[0]
    to.device(10, 140, 57 * size, 30, state, name)
    for number in range(4):
        state = "blocked" if number < 2 else "free"
        to.device(10 + 114 * number, 176, 114, 30, state, f"quarter {number}")
    to.legend(222, "held", "free", "blocked")


def _sharing(to: _Drawing) -> None:
    to.text(10, 24, "One device, capacity memory: 80Gi", "bold")
    for x, width, state, label in (
        (10, 115, "held", "claim a: 20Gi"),
        (125, 230, "shared", "claim b: 40Gi"),
        (355, 115, "free", "20Gi left"),
    ):
        to.device(x, 36, width, 48, state, label)
    to.box(10, 104, 220, 62, "allowMultipleAllocations", "the driver permits it;", "each share has an ID")
    to.box(250, 104, 220, 62, "requestPolicy", "default, minimum, step:", "10Gi asked may consume 20Gi")


def _waiting(to: _Drawing) -> None:
    to.text(10, 24, "Request gpus needs 2 devices; on node-0 there are", "bold")
    rows = (("in reach", 8), ("of the class", 8), ("matching the selectors", 5), ("without taints", 4), ("free", 1))
    for number, (text, count) in enumerate(rows):
        y = 38 + 34 * number
        to.device(180, y, 34 * count, 26, "free" if count > 1 else "blocked", str(count))
        to.text(10, y + 18, text, "faint")
    to.text(10, 226, "The first count below 2 is the cause; the test above it", "faint")
    to.text(10, 242, "says which change would help.", "faint")


def _taints(to: _Drawing) -> None:
    to.box(10, 10, 220, 62, "Driver", "reports gpu-2 as unhealthy,", "or taints it in its slice")
    to.box(250, 10, 220, 62, "DeviceTaintRule", "an administrator taints", "devices by driver, pool, name")
    to.box(10, 112, 460, 92, "Devices")
    to.arrow((120, 72), (120, 110))
    to.arrow((360, 72), (360, 110))
    for number, state in enumerate(("free", "held", "tainted", "free")):
        to.device(20 + 112 * number, 142, 104, 50, state, f"gpu-{number}")
    to.box(10, 244, 220, 62, "NoSchedule", "no new claim gets it,", "unless it tolerates the taint")
    to.box(250, 244, 220, 62, "NoExecute", "pods that use it are evicted,", "too, after their toleration")
    to.arrow((120, 204), (120, 242))
    to.arrow((360, 204), (360, 242))
    to.legend(322, "free", "held", "tainted")


def _gangs(to: _Drawing) -> None:
    for x, title, free in ((10, "3 of 4 fit: none starts", 3), (250, "4 of 4 fit: all start", 4)):
        to.box(x, 10, 220, 150, title, "PodGroup, minCount: 4")
        for number in range(4):
            fits = number < free
            state = "held" if free == 4 else "free" if fits else "blocked"
            to.device(x + 12 + 50 * number, 66, 44, 44, state, f"{number}")
        to.text(x + 10, 134, "no device is held" if free == 3 else "placed in one decision", "faint")
    to.legend(176, "free", "blocked", "held")


def _parts(to: _Drawing) -> None:
    to.box(130, 120, 220, 56, "API server", "all objects; every write on disk")
    to.box(10, 10, 140, 56, "Scheduler", "chooses devices")
    to.box(170, 10, 140, 56, "Controllers", "claims, taints, …")
    to.box(330, 10, 140, 56, "kubectl dra", "explains, read-only")
    to.box(10, 234, 220, 72, "Node agent", "runs pods,", "prepares their claims")
    to.box(250, 234, 220, 72, "Driver on the node", "publishes slices,", "sets up devices")
    for start in ((80, 66), (240, 66), (400, 66)):
        to.arrow(start, (start[0] if start[0] == 240 else 160 if start[0] == 80 else 320, 118))
    to.arrow((120, 232), (180, 178))
    to.arrow((360, 232), (300, 178))
    to.arrow((230, 270), (248, 270))


_Picture = tuple[str, str, int, Callable[[_Drawing], None]]
PICTURES: Final[dict[str, _Picture]] = {
    "claims": (
        "A pod, its claim, and devices",
        "A pod names a claim for two devices of a class. Drivers publish devices in resource slices. Two are held.",
        330,
        _claims,
    ),
    "gangs": (
        "Pods that run together or not at all",
        "If three of four pods of a group fit, none starts and no device is held. If all fit, all start.",
        200,
        _gangs,
    ),
    "parts": (
        "The parts of a cluster",
        "Scheduler, controllers, kubectl dra, node agent and driver use the API. The node agent also calls the driver.",
        316,
        _parts,
    ),
    "partitions": (
        "A GPU and its partitions, to scale",
        "Eight memory slices of a GPU. One half is held, so the whole GPU and two quarters are blocked.",
        246,
        _partitions,
    ),
    "sharing": (
        "A device that several claims share",
        "Of 80 gibibytes, claim a consumes 20, claim b 40, and 20 are left.",
        176,
        _sharing,
    ),
    "taints": (
        "Taints of devices and what they do",
        "A driver or a rule taints a device. NoSchedule keeps new claims away, NoExecute also evicts pods.",
        346,
        _taints,
    ),
    "waiting": (
        "How many devices each test leaves",
        "Of eight devices, five match the selectors, four have no taints, and one is free; two are needed.",
        252,
        _waiting,
    ),
    "walk": (
        "The walk of a claim, from template to container",
        "Claim controller, scheduler, node agent, driver and container runtime act in turn.",
        406,
        _walk,
    ),
}
"""Name of the file → title, description, height, and the function that draws it."""


def main(names: Sequence[str] = tuple(PICTURES)) -> None:
    """Write the pictures."""
    for name in names:
        (FOLDER / f"{name}.svg").write_text(drawn(name))


if __name__ == "__main__":
    main()
