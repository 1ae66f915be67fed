"""The device map of a dump in a browser: every panel, the keyboard, every width, and no violation of accessibility."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import EXAMPLES, OpenMap, map_server, until

pytestmark = pytest.mark.asyncio(loop_scope="module")  # that of the browser
CLUSTER = EXAMPLES / "insight" / "cluster.yaml"


async def lit(page: Any) -> int:
    """The number of devices that the map lights."""
    button = page.get_by_text(re.compile(r"^Clear \d"))
    if await button.count() == 0:
        return 0
    return int(re.sub(r"\D", "", await button.inner_text()))


async def test_it_shows_what_waits_and_explains_it_step_by_step(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        page = found.page
        await page.get_by_role("button", name="pod team-a/train").first.click()
        panel = page.get_by_role("tabpanel")
        await panel.get_by_text("What would help (tried)").wait_for()
        text = await panel.inner_text()
        assert "pod team-a/train" in text
        assert "untolerated taint" in text
        assert await panel.get_by_role("list", name="Devices left after each test").count() > 0


async def test_a_device_has_its_attributes_holders_and_neighbours(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        page = found.page
        await page.get_by_role("searchbox").fill("node-0 gpu-1")
        assert await lit(page) == 1
        await page.get_by_role("button", name="node-0 gpu-1").click()
        panel = page.get_by_role("tabpanel")
        text = await panel.inner_text()
        for part in ("held by team-b/bert", "A100", "40Gi", "Devices of equal form"):
            assert part in text
        await panel.get_by_role("button", name="Highlight them").click()
        assert await lit(page) == 4
        await panel.get_by_role("button", name="claim team-b/bert").click()
        await panel.get_by_role("heading", name="claim team-b/bert").first.wait_for()
        await until(page, "document.body.innerText.includes('Clear 2 highlights')")


async def test_the_keyboard_moves_selects_and_zooms(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        page = found.page
        await page.focus("canvas")
        said = page.locator("#said")
        await until(page, "document.querySelector('#said').textContent.includes('gpu-0 on node-0')")
        await page.keyboard.press("ArrowRight")
        assert "gpu-1 on node-0: held by team-b/bert" in await said.inner_text()
        await page.keyboard.press("+")
        await page.keyboard.press("0")
        await page.keyboard.press("Enter")
        assert await page.get_by_role("tabpanel").get_by_role("heading", name="gpu-1").count() == 1
        await page.keyboard.press("Escape")
        assert await page.get_by_role("heading", name="gpu-1").count() == 0


PARTITIONED = """
apiVersion: v1
kind: Node
metadata: {name: node-0}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: counters}
spec:
  driver: gpu.example.com
  nodeName: node-0
  pool: {name: node-0, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: gpu-0, counters: {slices: {value: "2"}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: devices}
spec:
  driver: gpu.example.com
  nodeName: node-0
  pool: {name: node-0, generation: 1, resourceSliceCount: 2}
  devices:
  - {name: gpu-0, consumesCounters: [{counterSet: gpu-0, counters: {slices: {value: "2"}}}]}
  - {name: gpu-0-a, consumesCounters: [{counterSet: gpu-0, counters: {slices: {value: "1"}}}]}
  - {name: gpu-0-b, consumesCounters: [{counterSet: gpu-0, counters: {slices: {value: "1"}}}]}
"""


async def test_partitions_are_reached_by_the_keyboard(open_map: OpenMap, tmp_path: Path) -> None:
    dump = tmp_path / "partitions.yaml"
    dump.write_text(PARTITIONED)
    async with open_map(dump) as found:
        page = found.page
        await page.focus("canvas")
        await page.keyboard.press("Home")
        await page.keyboard.press("Enter")
        panel = page.get_by_role("tabpanel")
        heading = panel.get_by_role("heading", name=re.compile("^Partitions of the same device"))
        await heading.wait_for()
        button = heading.locator("xpath=following-sibling::ul[1]").get_by_role("button").first
        name = await button.inner_text()
        await button.focus()
        await page.keyboard.press("Enter")
        await panel.get_by_role("heading", name=name, exact=True).wait_for()
        assert await panel.get_by_text(re.compile(r"% of the whole device")).count() == 1


async def test_the_reason_is_shown_beside_the_pointer(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        page = found.page
        box = await page.locator("canvas").bounding_box()
        texts = set()
        for y in (0.15, 0.25, 0.35):
            for x in range(int(box["width"] * 0.2), int(box["width"] * 0.8), 24):
                await page.mouse.move(box["x"] + x, box["y"] + box["height"] * y)
                texts.update(await page.locator(".tip").all_inner_texts())
        assert any(text.endswith("held by team-b/notebook") for text in texts), texts
        assert any(text.endswith("free") for text in texts), texts


async def test_a_change_is_simulated_and_its_difference_is_lit(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        page = found.page
        await page.get_by_role("button", name="claim team-b/notebook").click()
        await page.get_by_role("button", name="What if it were freed?").click()
        panel = page.get_by_role("tabpanel")
        await panel.get_by_role("heading", name=re.compile("0 placed, 1 gone")).wait_for()
        assert "team-b/notebook" in await panel.inner_text()
        assert await lit(page) == 1
        await panel.get_by_label("drain nodes").fill("node-9")
        await panel.get_by_role("button", name="Simulate").click()
        assert "there is no node 'node-9'" in await panel.get_by_role("alert").inner_text()


async def test_added_nodes_are_on_the_map_until_the_present_is_shown_again(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        page = found.page
        panel = await found.panel("What if")
        await page.evaluate("Object.assign(deviceMap.whatIf.form, { profile: 'node-0', nodes: 2 }), deviceMap.update()")
        await panel.get_by_role("button", name="Simulate").click()
        await page.get_by_text("what would be").wait_for()
        assert await page.evaluate("[deviceMap.model.nodes.size, deviceMap.model.devices.size]") == [5, 20]
        await panel.get_by_role("button", name="Back to the present").click()
        assert await page.evaluate("[deviceMap.model.nodes.size, deviceMap.model.devices.size]") == [3, 12]


async def test_it_counts_how_many_more_fit_of_each_class(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        panel = await found.panel("What if")
        await panel.get_by_role("button", name="How many more fit?").click()
        # Six are free, of which four are on a tainted node.
        await panel.get_by_role("row", name=re.compile(r"one gpu.example.com\s+2$")).wait_for()


async def test_a_taint_is_dropped(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        panel = await found.panel("What if")
        await panel.get_by_label("taint or untaint").fill("node-2=reserved=research:NoSchedule-")
        await panel.get_by_role("button", name="Simulate").click()
        await panel.get_by_role("heading", name=re.compile("1 placed, 0 gone")).wait_for()
        assert "team-a/train" in await panel.inner_text()


async def test_the_bench_lights_matches_while_typing_and_shows_each_value(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        page = found.page
        panel = await found.panel("CEL")
        area = panel.get_by_role("textbox", name="Expression over device")
        await area.press_sequentially('device.attributes["gpu')
        await panel.get_by_role("option", name='gpu.example.com"]').click()
        await area.press_sequentially(".numa == 1 && device.driver == 'gpu.example.com'")
        await panel.get_by_text("matches 6 of 12 devices").wait_for()
        assert await lit(page) == 12, "those that one condition excludes are lit, too"
        text = await panel.inner_text()
        assert "cost" in text
        assert "deviceClassName: gpu.example.com" in text
        row = panel.get_by_role("row", name=re.compile(r'device.attributes\["gpu.example.com"\].numa\s+0'))
        assert await row.count() == 1


async def test_an_error_of_the_expression_is_shown_at_its_place(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        panel = await found.panel("CEL")
        await panel.get_by_role("textbox", name="Expression over device").fill("true && devic.driver")
        alert = panel.get_by_role("alert")
        await alert.wait_for()
        lines = (await alert.locator("pre").inner_text()).splitlines()
        assert lines[1].index("▲") == lines[0].index("devic")


async def test_it_groups_by_labels_of_nodes_driver_pool_and_class(open_map: OpenMap) -> None:
    async with open_map(CLUSTER) as found:
        select = found.page.get_by_label("Group by")
        assert await select.input_value() == "zone"
        options = await select.locator("option").all_inner_texts()
        assert options[:5] == ["nothing", "driver", "pool", "class", "node label zone"]
        for value in ("driver", "pool", "class", ""):
            await select.select_option(value)


# Elements that make the page wider than its window.
TOO_WIDE = """document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("*")]
    .filter(element => element.getBoundingClientRect().right > innerWidth)
    .map(element => element.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 800, 1600])
async def test_nothing_of_it_violates_accessibility(open_map: OpenMap, tmp_path: Path, width: int, dark: bool) -> None:
    from axe_playwright_python.async_playwright import Axe

    # Its name is shown, and is as long as some are.
    dump = tmp_path / ("a" * 80) / "cluster.yaml"
    dump.parent.mkdir()
    shutil.copy(CLUSTER, dump)
    async with open_map(dump, width=width, dark=dark) as found:
        page = found.page
        await until(page, "!document.body.innerText.includes('being explained')")
        violations = []
        for name in ("Find", "What if", "CEL", "Lint", "Selected"):
            panel = await found.panel(name)
            if name == "CEL":
                await panel.get_by_role("textbox", name="Expression over device").fill("device.driver == 'x' && true")
                await panel.get_by_text("matches 0 of 12").wait_for()
            if name == "Selected":
                await page.focus("canvas")
                await page.keyboard.press("Enter")
            results = await Axe().run(page)
            violations += [f"{name}: {one['id']}: {one['nodes'][0]['html']}" for one in results.response["violations"]]
            # Fonts differ from machine to machine: also with letters set wider apart, nothing is cut off.
            for spacing in ("0", "0.2em"):
                await page.evaluate(f"document.body.style.letterSpacing = '{spacing}'")
                assert await page.evaluate(TOO_WIDE) == [], f"{name}, letters {spacing} apart"
            await page.evaluate("document.body.style.letterSpacing = ''")
        assert violations == []


async def test_without_the_token_the_page_says_why_it_is_empty(browser: Any) -> None:
    with map_server("--dump", str(CLUSTER)) as address:
        page = await browser.new_page()
        await page.goto(address.partition("#")[0])
        alert = page.get_by_role("alert")
        await alert.wait_for()
        assert "token" in await alert.inner_text()


async def test_a_hostile_dump_runs_no_script_and_says_what_it_left_out(open_map: OpenMap, tmp_path: Path) -> None:
    """Kubernetes would refuse such names; a dump is only a file."""
    script = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    long = "x" * 10_000_000
    text = CLUSTER.read_text().replace("name: gpu-0", f"name: {json.dumps('gpu-0' + script)}", 1)
    text = text.replace("string: A100", f"string: {json.dumps(script)}", 1).replace(
        "string: A100", f"string: {long}", 1
    )
    text = text.replace("name: bert\n", f"name: {json.dumps('bert' + script)}\n").replace(
        "zone: a", f"zone: {json.dumps(script)}", 1
    )
    dump = tmp_path / "hostile.yaml"
    dump.write_text(text)
    async with open_map(dump) as found:
        page = found.page
        await page.get_by_role("searchbox").fill("gpu")
        await page.focus("canvas")
        await page.keyboard.press("Home")
        await page.keyboard.press("Enter")
        for name in ("Find", "Selected", "What if", "CEL", "Lint"):
            await found.panel(name)
        assert await page.title() == "Device map"
        assert await page.locator("#app script, #app img").count() == 0
        assert len(await page.locator("body").inner_text()) < 1_000_000
        await found.panel("Find")
        await page.get_by_role("searchbox").fill("")
        assert "longer than" in await page.get_by_role("tabpanel").inner_text()
