"""The device map of a running cluster: it follows changes, keeps a history, and reports when it is outdated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.background import stop
from tests.browser.conftest import OpenMap, map_server, until
from tests.requirements import program

pytestmark = pytest.mark.asyncio(loop_scope="module")  # that of the browser
WORK = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: none, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster with two nodes of four GPUs."""
    program("chromium")
    program("kubectl")
    data = DataDir(tmp_path_factory.mktemp("cluster") / "data")
    command = [sys.executable, "-m", "cathedra.cli.main", "up", "--detach", "--no-merge", f"--data-dir={data.path}"]
    command += ["--nodes=2", "--gpus=4", "--runtime=simulated"]
    own = {**os.environ, "CATHEDRA_DATA_DIR": str(data.path.parent / "state")}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert f"device map: kubectl dra map --kubeconfig {data.kubeconfig}" in done.stdout + data.log.read_text()
    yield data.kubeconfig
    stop(data)


def kubectl(kubeconfig: Path, *words: str, given: str = "") -> None:
    command = ["kubectl", f"--kubeconfig={kubeconfig}", *words]
    subprocess.run(command, input=given, check=True, capture_output=True, text=True, timeout=60)


async def chip(page: Any, text: str) -> None:
    """Wait until the header counts devices so."""
    await page.get_by_role("list", name="Devices by state").get_by_text(text, exact=True).wait_for()


async def test_it_follows_remembers_and_explains(cluster: Path, open_map: OpenMap) -> None:
    from axe_playwright_python.async_playwright import Axe

    with map_server("--kubeconfig", str(cluster)) as address:
        async with open_map(address) as found:
            page = found.page
            await page.get_by_text("live", exact=True).wait_for()
            await chip(page, "8 free")
            kubectl(cluster, "apply", "-f", "-", given=WORK)
            await chip(page, "3 held")
            events = page.get_by_role("list", name="Latest events")
            await events.get_by_text(re.compile("claim default/web-.* was allocated gpu-")).first.wait_for()

            results = await Axe().run(page)
            assert [one["id"] for one in results.response["violations"]] == []

            # What is held, since when, and by what.
            await page.get_by_role("searchbox").fill("deployment")
            await page.get_by_role("button", name="deployment default/web").click()
            panel = page.get_by_role("tabpanel")
            await panel.get_by_role("heading", name="deployment default/web").wait_for()
            await page.get_by_text("Clear 3 highlights").wait_for()

            # One more replica fits five times, and then waits.
            await panel.get_by_role("button", name="What if it had more replicas?").click()
            await panel.get_by_label("to replicas").fill("9")
            await panel.get_by_role("button", name="Simulate").click()
            await panel.get_by_role("heading", name="5 placed, 0 gone, 1 without a node").wait_for()

            allocated = await page.evaluate(
                "deviceMap.timeline.changes.filter(one => one.events?.some(e => e.kind === 'allocated')).at(-1).now"
            )
            # The slider has steps of a second: what follows is to be later than the moment that it will be set to.
            await page.wait_for_function("allocated => Date.now() / 1000 > allocated + 3", arg=allocated)
            kubectl(cluster, "scale", "deployment/web", "--replicas=0")
            await chip(page, "8 free")
            await events.get_by_text(re.compile("gave back gpu-")).first.wait_for()

            # The timeline shows the map as it was.
            slider = page.get_by_role("slider")
            await slider.fill(str(int(allocated) + 1))
            await page.get_by_text(re.compile("^as of ")).wait_for()
            await chip(page, "3 held")

            # What has gone since is explained as it was.
            panel = await found.panel("Find")
            await page.get_by_role("searchbox").fill("claim default/web")
            await panel.get_by_role("button", name="claim default/web").first.click()
            await panel.get_by_text(re.compile(r"^as it was at \d\d:\d\d:\d\d$")).wait_for()
            await panel.get_by_text(re.compile("^allocated,reserved$")).wait_for()

            await page.get_by_role("button", name="Back to now").click()
            await chip(page, "8 free")
            await panel.get_by_role("alert").get_by_text(re.compile("no claim|not found|there is no")).wait_for()


async def test_it_says_when_the_connection_is_lost_and_goes_on_with_the_next_server(
    cluster: Path, browser: Any
) -> None:
    page = await browser.new_page()
    with map_server("--kubeconfig", str(cluster)) as address:
        await page.goto(address)
        await page.get_by_text("live", exact=True).wait_for()
    await page.get_by_text(re.compile(r"connection is lost since \d\d:\d\d:\d\d: the picture is \d+ s old")).wait_for()
    assert await page.get_by_role("list", name="Devices by state").count() == 1, "the last picture stays"


async def test_it_says_when_the_cluster_does_not_answer(
    tmp_path_factory: pytest.TempPathFactory, cluster: Path, open_map: OpenMap
) -> None:
    """Last: it stops the cluster."""
    with map_server("--kubeconfig", str(cluster)) as address:
        async with open_map(address) as found:
            page = found.page
            await page.get_by_text("live", exact=True).wait_for()
            stop(DataDir(cluster.parent))
            await page.get_by_text(re.compile("the cluster does not answer since")).wait_for(timeout=60_000)
            await until(page, "document.querySelector('canvas') !== null")
