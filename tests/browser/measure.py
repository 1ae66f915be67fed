"""Measures the device map in a browser: time of the first drawing, frames per second, and changes that are followed.

python -m tests.browser.measure [--nodes N]…

Nothing is asserted: the numbers depend on the machine. It serves generated dumps with 8 devices on each node, and then
a cluster in memory whose slices change 100 times per second.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    Device,
    DeviceTaint,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from cathedra.api.struct import replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NODES, RESOURCESLICES
from cathedra.clock import SystemClock
from cathedra.engine import Engine
from cathedra.insight.reading.live import read_client
from cathedra.page.following import ClusterFollower
from cathedra.page.server import serving_page
from cathedra.releases import FeatureGates
from tests.browser.conftest import map_server, until
from tests.requirements import program
from tests.running import beside
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump

_FRAMES = """async () => {
  const canvas = document.querySelector("canvas");
  const begin = performance.now();
  let frames = 0;
  await new Promise((done) => {
    const step = () => {
      frames++;
      const deltaY = frames % 40 < 20 ? 6 : -6;
      canvas.dispatchEvent(new WheelEvent("wheel", { shiftKey: true, deltaY, cancelable: true }));
      if (performance.now() - begin < 3000) requestAnimationFrame(step);
      else done();
    };
    requestAnimationFrame(step);
  });
  return frames / ((performance.now() - begin) / 1000);
}"""
_DRAWING = """() => {
  const times = [];
  for (let i = 0; i < 20; i++) {
    const begin = performance.now();
    deviceMap.view.draw();
    times.push(performance.now() - begin);
  }
  return times.sort((a, b) => a - b)[10];
}"""


# Notes when the canvas was drawn first with each taint. A change of the same device may hide the one before it.
_RECORD_TAINTS = """() => {
  globalThis.seen = new Map();
  const { view, present } = deviceMap;
  let changed = [];
  const apply = present.apply.bind(present);
  present.apply = (change) => (changed.push(...change.devices ?? []), apply(change));
  const draw = view.draw.bind(view);
  view.draw = () => {
    draw();
    for (const one of changed) for (const taint of one.taints) {
      const number = taint.replace(/^broken=|:.*$/g, "");
      if (!seen.has(number)) seen.set(number, Date.now());
    }
    changed = [];
  };
}"""


async def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description="Measure the device map in a browser.")
    parser.add_argument("--nodes", type=int, action="append", metavar="N", help="nodes of a dump (default: 1000, 5000)")
    arguments = parser.parse_args()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
        for nodes in arguments.nodes or (1000, 5000):
            await _dump(browser, nodes)
        for nodes in arguments.nodes or (1000, 5000):
            await _followed(browser, nodes)
        await browser.close()


async def _dump(browser: Any, nodes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = write_dump(Path(folder, "dump.json"), gpu_cluster(nodes=nodes, gpus=8, taken=nodes * 3))
        with map_server("--dump", file) as address:
            page = await browser.new_page(viewport={"width": 1400, "height": 900})
            await page.goto(address)
            await page.wait_for_selector("canvas")
            first = await page.evaluate("performance.getEntriesByName('map-drawn')[0].startTime")
            # The second page is measured, too: the first one waits for the answer to be made.
            await page.reload()
            await page.wait_for_selector("canvas")
            drawn = await page.evaluate("performance.getEntriesByName('map-drawn')[0].startTime")
            await page.wait_for_timeout(2000)
            opened, again = first / 1000, drawn / 1000
            print(f"{nodes:,} nodes × 8: drawn {opened:.2f} s after opening, {again:.2f} s after a reload")
            for text, factor in (("all in sight", 1), ("closer", 4)):
                await page.evaluate(f"deviceMap.view.zoom({factor})")
                frames, drawing = await page.evaluate(_FRAMES), await page.evaluate(_DRAWING)
                print(f"  {text}: {frames:.0f} frames/s, {drawing:.1f} ms for each")
            await page.close()


async def _followed(browser: Any, nodes: int, rate: int = 100, seconds: int = 20) -> None:
    async with _cluster(nodes) as (client, address):
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        await page.goto(address)
        await page.get_by_text("live", exact=True).wait_for()
        await page.evaluate(_RECORD_TAINTS)
        changing = asyncio.create_task(_change(client, nodes, rate, seconds))
        await page.wait_for_timeout(3000)
        frames = await page.evaluate(_FRAMES)
        written = await changing
        last = str(len(written))
        await until(page, f"seen.has({last!r})")
        seen = dict(await page.evaluate("[...seen]"))
        late = sorted(seen[number] / 1000 - time for number, time in written.items() if number in seen)
        at = [late[int(len(late) * share)] for share in (0.5, 0.95)]
        print(
            f"{nodes:,} nodes × 8, {len(written) / seconds:.0f} changes/s: {frames:.0f} frames/s, drawn after "
            f"{at[0]:.2f} s (median), {at[1]:.2f} s (95 %), {late[-1]:.2f} s (longest of {len(late):,} seen)"
        )
        await page.close()


@asynccontextmanager
async def _cluster(nodes: int) -> AsyncIterator[tuple[Client, str]]:
    clock = SystemClock()
    server = await APIServer.open(ServerConfig(gates=FeatureGates.for_release()), clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    for number in range(nodes):
        name = f"node-{number}"
        await client.resource(NODES).create(Node(metadata=ObjectMeta(name=name)))
        await client.resource(RESOURCESLICES).create(_slice(name))
    engine = Engine(await read_client(client, source="cluster"))
    with ThreadPoolExecutor(1) as executor, ThreadPoolExecutor(1) as drawing:
        follower = ClusterFollower(engine, server.transport(), namespace="", clock=clock, executor=drawing)
        async with serving_page(engine, follower, executor) as address, beside(follower.run()):
            yield client, address
    await server.close()


def _slice(node: str) -> ResourceSlice:
    devices = tuple(Device(name=f"gpu-{number}") for number in range(8))
    pool = ResourcePool(name=node, generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver="gpu.example.com", node_name=node, pool=pool, devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=node), spec=spec)


async def _change(client: Client, nodes: int, rate: int, seconds: int) -> dict[str, float]:
    """Taint devices with the number of the change as value. Return the times of the writes."""
    slices, chosen, written = client.resource(RESOURCESLICES), random.Random(1), dict[str, float]()
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        one = await slices.get(f"node-{chosen.randrange(nodes)}")
        number, place = str(len(written) + 1), chosen.randrange(8)
        taint = DeviceTaint(key="broken", value=number, effect="NoSchedule")
        devices = [
            replace(device, taints=(taint,)) if at == place else device
            for at, device in enumerate(one.spec.devices or ())
        ]
        await slices.update(replace(one, spec=replace(one.spec, devices=tuple(devices))))
        written[number] = time.time()
        await asyncio.sleep(max(0.0, begin + len(written) / rate - time.monotonic()))
    return written


if __name__ == "__main__":
    asyncio.run(main())
