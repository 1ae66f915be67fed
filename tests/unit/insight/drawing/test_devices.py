"""Pictures of devices are well-formed, to scale, and of the requested width."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cathedra.insight import DeviceList, devices, read_dump
from cathedra.insight.drawing import devices as drawing
from cathedra.insight.drawing.devices import STATES, THEMES, UNHEALTHY, WAITING, cell_text, devices_svg, reason_text
from tests.unit.cli.dra.dumps import gpu_cluster

SVG = "{http://www.w3.org/2000/svg}"


def entry(device: str, **more: Any) -> dict[str, Any]:
    plain = {"node": "n", "driver": "d", "pool": "n", "device": device, "state": "free", "holders": [], "classes": []}
    rest = {
        "attributes": {},
        "capacity": {},
        "left": {},
        "counters": {},
        "counterSet": "",
        "blockedBy": [],
        "taints": [],
    }
    shape = {"health": "", "bindingConditions": [], "at": 0.0, "size": 1.0, "lane": 0, "used": 0.0}
    return {**plain, **rest, **shape, **more}


def holder(claim: str, **more: Any) -> dict[str, Any]:
    return {"claim": claim, "conditions": [], "share": 1.0, "adminAccess": False, **more}


def drawn(*rows: dict[str, Any], **options: Any) -> ElementTree.Element:
    return ElementTree.fromstring(devices_svg({"devices": rows}, **options))


def titles(svg: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in svg.iter(f"{SVG}title")]


@pytest.mark.parametrize("width", [400, 800, 1600])
def test_nothing_is_wider_than_the_picture(width: int) -> None:
    found = devices(read_dump(gpu_cluster(nodes=30, gpus=8, taken=40)))
    svg = ElementTree.fromstring(found.svg(width))
    assert svg.get("width") == str(width)
    for one in svg.iter(f"{SVG}rect"):
        assert float(one.get("x", 0)) + float(one.get("width", 0)) <= width + 2
    assert len(titles(svg)) == 240


def test_a_partition_is_drawn_at_its_place_and_size() -> None:
    svg = drawn(
        entry("gpu", counterSet="gpu", state="blocked", lane=0),
        entry("part", counterSet="gpu", state="held", at=0.5, size=0.25, lane=1, used=1.0, holders=[holder("a/b")]),
    )
    (cell,) = svg.iter(f"{SVG}g")
    whole, bar = list(cell.iter(f"{SVG}rect"))[:2]
    assert float(bar.get("width", 0)) == pytest.approx(float(whole.get("width", 0)) / 4)
    assert float(bar.get("x", 0)) - float(whole.get("x", 0)) == pytest.approx(float(whole.get("width", 0)) / 2)


def test_shares_fill_their_parts_of_the_device_one_above_the_other() -> None:
    holders = [holder("a/b", share=0.25), holder("a/c", share=0.5), holder("a/d", adminAccess=True)]
    (cell,) = drawn(entry("gpu", state="shared", used=0.75, holders=holders)).iter(f"{SVG}g")
    whole, first, second = cell.iter(f"{SVG}rect")
    tall, bottom = float(whole.get("height", 0)), float(whole.get("y", 0)) + float(whole.get("height", 0))
    assert float(first.get("height", 0)) == pytest.approx(tall / 4)
    assert float(first.get("y", 0)) == pytest.approx(bottom - tall / 4)
    assert float(second.get("height", 0)) == pytest.approx(tall / 2 - 1), "less a line between them"
    assert float(second.get("y", 0)) == pytest.approx(bottom - tall * 3 / 4)


@pytest.mark.parametrize(("state", "lines"), [("free", 0), ("blocked", 1), ("tainted", 1), ("unusable", 1)])
def test_states_that_cannot_be_had_have_a_pattern_besides_their_colour(state: str, lines: int) -> None:
    (cell,) = drawn(entry("gpu", state=state)).iter(f"{SVG}g")
    assert len(list(cell.iter(f"{SVG}path"))) == lines


def test_health_and_binding_conditions_are_marked() -> None:
    svg = drawn(
        entry("a", health="Unhealthy"),
        entry("b", state="held", used=1.0, bindingConditions=["Ready"], holders=[holder("x/y")]),
        entry(
            "c", state="held", used=1.0, bindingConditions=["Ready"], holders=[holder("x/z", conditions=["Ready=True"])]
        ),
    )
    assert [len(list(cell.iter(f"{SVG}circle"))) for cell in svg.iter(f"{SVG}g")] == [1, 1, 0]


def test_each_state_has_its_reason() -> None:
    blocked = entry("p", state="blocked", blockedBy=["a/b"], counters={"set/memory": "10 of 5 left"})
    assert reason_text(blocked) == "blocked by a/b: needs set/memory 10 of 5 left"
    shared = entry("p", state="shared", holders=[holder("a/b")], left={"memory": "5Gi"}, health="Unhealthy")
    assert reason_text(shared) == "held in part by a/b; left: memory 5Gi; unhealthy"
    assert reason_text(entry("p", state="tainted", taints=["x:NoSchedule"])) == "tainted: x:NoSchedule"
    assert cell_text([entry("gpu-0", counterSet="s"), entry("gpu-0-a", counterSet="s", size=0.5)]) == (
        "gpu-0 on n with 1 partition: none held, 2 free"
    )


def test_names_with_markup_and_control_characters_stay_texts() -> None:
    svg = drawn(entry("<script>alert(1)</script>\x00\x1b"), entry('"><g onload="x"', node="<b>"))
    assert any("<script>" in text for text in titles(svg))
    assert not [one for one in svg.iter() if "script" in one.tag or "onload" in one.attrib]


def test_lit_devices_have_a_frame() -> None:
    svg = drawn(entry("a"), entry("b"), lit={"d/n/a": "new", "d/n/b": "old"})
    marks = [one.get("class") for one in svg.iter(f"{SVG}rect") if (one.get("class") or "").startswith("mark")]
    assert marks == ["mark", "mark old"]


def test_a_large_cluster_is_drawn_up_to_a_limit_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MOST_CELLS", 4)
    found = devices(read_dump(gpu_cluster(nodes=5, gpus=2)))
    text = found.svg()
    assert "and 6 devices more" in text
    assert len(titles(ElementTree.fromstring(text))) == 4


def test_notebooks_show_the_picture() -> None:
    assert DeviceList((), devices(read_dump([])).total)._repr_html_().startswith("<svg")


# Pictures and page have the same colours, and texts can be read on them.

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
