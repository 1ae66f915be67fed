"""Colours of pictures, after Okabe and Ito: they differ for people with any common colour blindness.

The device map in the browser has the same (`page/static/colours.js`; a test compares them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
