"""Pictures and page have the same colours, and texts can be read on them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cathedra.insight.drawing.colours import STATES, THEMES, UNHEALTHY, WAITING

PAGE = Path(__file__).parents[4] / "src" / "cathedra" / "page" / "static" / "colours.js"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_page_has_the_same_colours_and_words() -> None:
    text = PAGE.read_text()
    assert dict(re.findall(r"(\w+): \{ colour: \"(#\w+)\"", text)) == {name: one[0] for name, one in STATES.items()}
    assert re.findall(r"text: \"([^\"]+)\"", text) == [word for _, word in STATES.values()]
    assert f'UNHEALTHY = "{UNHEALTHY}"' in text
    assert f'WAITING = "{WAITING}"' in text
    for name, theme in THEMES.items():
        for key, colour in theme.items():
            assert f'{key}: "{colour}"' in text.partition(f"{name}: {{")[2].partition("}")[0]


@pytest.mark.parametrize("theme", THEMES)
def test_texts_have_contrast_and_states_stand_out(theme: str) -> None:
    colours = THEMES[theme]
    for ink in ("ink", "faint"):
        for paper in ("paper", "panel"):
            assert contrast(colours[ink], colours[paper]) >= 4.5
    for colour, _ in STATES.values():
        assert contrast(colour, colours["paper"]) >= 2
