"""``cathedra demo``: a cluster with simulated GPUs, a job that uses them, and what each container saw."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Final

from rich.console import Console

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Pod
from cathedra.api.gates import FeatureGates
from cathedra.cli.tables import draw, make_console
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.informer import Informer
from cathedra.client.kubeconfig import load
from cathedra.client.resources import JOBS, PODS
from cathedra.clock import SystemClock
from cathedra.cluster import background
from cathedra.cluster.datadir import DataDir
from cathedra.cluster.manifests import create_all, read_manifests
from cathedra.cluster.overview import read_overview
from cathedra.semantics.conditions import is_true
from cathedra.semantics.pods import is_terminal

__all__ = ["run"]

PATIENCE: Final = 60.0
"""Seconds after which the demo shows what there is instead of waiting on."""


def run(arguments: argparse.Namespace) -> int:
    """Start, apply, wait, show, stop; 1 if the job did not complete."""
    console = make_console()
    with ExitStack() as stack:
        path = arguments.data_dir
        if path is None:
            kept = tempfile.mkdtemp(prefix="cathedra-demo-") if arguments.keep else None
            path = Path(kept or stack.enter_context(tempfile.TemporaryDirectory(prefix="cathedra-demo-")))
        data = DataDir(path.expanduser().absolute())
        console.print("[bold]$ cathedra up --detach --nodes 2 --gpus 4[/bold]")
        options = [f"--data-dir={data.path}", "--nodes=2", "--gpus=4", f"--runtime={arguments.runtime}", "--no-merge"]
        background.start(options, data.log, lambda line: console.print(f"  {line}", highlight=False))
        try:
            return asyncio.run(_show(data, console))
        finally:
            if arguments.keep:
                console.print(f"\nstill running: export KUBECONFIG={data.kubeconfig}")
                console.print(f"stop it with: cathedra down --data-dir {data.path}")
            else:
                background.stop(data)


async def _show(data: DataDir, console: Console) -> int:
    clock = SystemClock()
    async with await HTTPTransport.open(load(data.kubeconfig)) as transport:
        client = Client(transport, clock=clock)
        with resources.as_file(resources.files("cathedra.cluster") / "demo.yaml") as manifest:
            console.print("\n[bold]$ kubectl apply -f demo.yaml[/bold]")
            for name in await create_all(client, read_manifests(manifest, FeatureGates.for_release())):
                console.print(f"  {name} created", highlight=False)
        done = await _wait_until_settled(client, clock)
        console.print()
        draw(await read_overview(client), console)
        await _show_logs(client, transport, console)
    if not done:
        console.print(f"[red]not everything was done within {PATIENCE:.0f} s; the table above says why[/red]")
    return 0 if done else 1


async def _wait_until_settled(client: Client, clock: SystemClock) -> bool:
    """Wait until every job is complete and every other pod runs or has ended; False if patience ended first."""
    jobs, pods = Informer(client, JOBS, clock=clock), Informer(client, PODS, clock=clock)
    changed = asyncio.Event()

    def note(*_: Job | Pod) -> None:
        changed.set()

    jobs.add_handler(note, note, note)
    pods.add_handler(note, note, note)
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(jobs.run()), group.create_task(pods.run())]
        try:
            async with asyncio.timeout(PATIENCE):
                await jobs.wait_synced()
                await pods.wait_synced()
                while not _settled(jobs, pods):
                    changed.clear()
                    await changed.wait()
            return True
        except TimeoutError:
            return False
        finally:
            for task in following:
                task.cancel()


def _settled(jobs: Informer[Job], pods: Informer[Pod]) -> bool:
    jobs_done = all(is_true(job.status.conditions, "Complete") for job in jobs.store.list())
    return jobs_done and all(is_terminal(pod) or pod.status.phase == "Running" for pod in pods.store.list())


async def _show_logs(client: Client, transport: HTTPTransport, console: Console) -> None:
    for pod in (await client.resource(PODS).list()).items:
        for container in pod.spec.containers:
            console.print(f"[bold]$ kubectl logs {pod.metadata.name} -c {container.name}[/bold]")
            text = await transport.read_log(pod.metadata.namespace, pod.metadata.name, container.name)
            for line in text.splitlines():
                console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
