"""``cathedra demo``: simulated GPUs, their allocation, a pending job, and the release that lets it run."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from importlib import resources
from pathlib import Path
from typing import Final

from rich.console import Console

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Pod
from cathedra.cli.cluster.tables import draw, make_console
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.informer import Informer
from cathedra.client.kubeconfig import load
from cathedra.client.resources import JOBS, PODS
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import directory_of, forget_elsewhere, selecting
from cathedra.cluster.manifests import create_all, read_manifests
from cathedra.cluster.process import background
from cathedra.cluster.process.signals import end_as_interrupted, held_back
from cathedra.cluster.views.overview import read_overview
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import find_condition, is_true

KEPT: Final = "demo"
"""The name of the cluster that ``--keep`` leaves running."""
DEVICES: Final = ("--nodes=1", "--gpus=4", "--gpu-partitions=2")
PATIENCE: Final = 60.0
"""Seconds after which the demo shows what there is instead of waiting on."""


def run(arguments: argparse.Namespace) -> int:
    """Start a cluster, apply workloads, show them, and stop. Return 1 if a workload did not run.

    After any interruption nothing is left of the cluster.

    Raises:
        InvalidOption: the demo's cluster exists already.
        KeyboardInterrupt: Ctrl-C, or a signal that ends programs.
    """
    end_as_interrupted()
    console = make_console()
    with ExitStack() as stack:
        data = DataDir(_directory(arguments, stack))
        if data.exists():
            raise InvalidOption(f"{data.path} holds a cluster already; remove it with: cathedra delete{_which(data)}")
        console.print(f"[bold]$ cathedra up --detach {' '.join(DEVICES)}[/bold]")
        options = [KEPT, f"--data-dir={data.path}", *DEVICES, f"--runtime={arguments.runtime}", "--no-merge"]
        kept = False
        try:
            background.start(options, data.log, lambda line: _report(line, console, kept=arguments.keep))
            with closing(asyncio.Runner()) as runner:
                # A signal in the constructor of the loop would leave half of one, whose end Python reports with a
                # traceback.
                with held_back():
                    runner.get_loop()
                done = runner.run(_show(data, console))
            kept = arguments.keep
        finally:
            if not kept:
                _remove(data)
        _say_what_next(data, console, kept=kept)
        return 0 if done else 1


def _report(line: str, console: Console, *, kept: bool) -> None:
    # A kubeconfig or map of a cluster that is gone in a few seconds is of no use.
    if kept or not line.startswith(("export KUBECONFIG=", "device map: ")):
        console.print(f"  {line}", highlight=False, soft_wrap=True)


def _remove(data: DataDir) -> None:
    # A second Ctrl-C would leave the cluster behind that the first one ended.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    background.stop(data)
    if data.exists():
        data.erase()
        forget_elsewhere(data.path)


def _directory(arguments: argparse.Namespace, stack: ExitStack) -> Path:
    if arguments.data_dir is not None:
        return Path(arguments.data_dir).expanduser().absolute()
    if arguments.keep:
        return directory_of(KEPT).expanduser().absolute()
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cathedra-demo-")))


def _which(data: DataDir) -> str:
    return selecting(KEPT, data.path)


def _say_what_next(data: DataDir, console: Console, *, kept: bool) -> None:
    lines = ["cathedra up --detach", "kubectl apply -f examples/pending-pods", "cathedra status"]
    if kept:
        lines = [f"export KUBECONFIG={data.kubeconfig}", "kubectl describe pods", f"cathedra status{_which(data)}"]
    if shutil.which("cathedra") is None:
        lines.insert(0, f"export PATH={Path(sys.argv[0]).absolute().parent}:$PATH")
    console.print("\n[bold]Next, try[/bold]")
    for line in lines:
        console.print(f"  $ {line}", soft_wrap=True)
    if shutil.which("kubectl") is None:
        console.print("kubectl is not installed here: https://kubernetes.io/docs/tasks/tools", soft_wrap=True)
    if kept:
        console.print(f"It is still running; remove it with: cathedra delete{_which(data)}", soft_wrap=True)


async def _show(data: DataDir, console: Console) -> bool:
    clock = SystemClock()
    async with await HTTPTransport.open(load(data.kubeconfig)) as transport:
        client = Client(transport, clock=clock)
        await _apply(client, "demo.yaml", console)
        done = await _wait_until(_all_run, client, clock)
        await _apply(client, "demo-train.yaml", console)
        done = await _wait_until(_one_waits, client, clock) and done
        console.print("\n[bold]$ cathedra status[/bold]   # a whole GPU, a shared one, a partition, a job that waits")
        draw(await read_overview(client, FeatureGates.for_release()), console)
        console.print("\n[bold]$ kubectl delete pod notebook[/bold]   # gives back the GPU that is missing")
        await client.resource(PODS, "default").delete("notebook")
        done = await _wait_until(_job_is_done, client, clock) and done
        console.print("  pod/notebook deleted; train got its two GPUs and is complete\n" if done else "  …")
        await _show_logs(client, transport, console)
    if not done:
        console.print(f"[red]not everything was done within {PATIENCE:.0f} s[/red]")
    return done


async def _apply(client: Client, name: str, console: Console) -> None:
    with resources.as_file(resources.files("cathedra.cluster") / name) as manifest:
        console.print(f"\n[bold]$ kubectl apply -f {name}[/bold]")
        for made in await create_all(client, read_manifests(manifest, FeatureGates.for_release())):
            console.print(f"  {made} created", highlight=False)


Settled = Callable[[Informer[Job], Informer[Pod]], bool]


async def _wait_until(settled: Settled, client: Client, clock: SystemClock) -> bool:
    """Wait until jobs and pods are as wanted; False if patience ended first."""
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
                while not settled(jobs, pods):
                    changed.clear()
                    await changed.wait()
            return True
        except TimeoutError:
            return False
        finally:
            for task in following:
                task.cancel()


def _all_run(_: Informer[Job], pods: Informer[Pod]) -> bool:
    return all(pod.status.phase == "Running" for pod in pods.store.list())


def _one_waits(_: Informer[Job], pods: Informer[Pod]) -> bool:
    found = (find_condition(pod.status.conditions, "PodScheduled") for pod in pods.store.list())
    return any(condition is not None and condition.status == "False" for condition in found)


def _job_is_done(jobs: Informer[Job], _: Informer[Pod]) -> bool:
    return all(is_true(job.status.conditions, "Complete") for job in jobs.store.list())


async def _show_logs(client: Client, transport: HTTPTransport, console: Console) -> None:
    for pod in (await client.resource(PODS).list()).items:
        if pod.metadata.deletion_timestamp is not None:
            continue
        for container in pod.spec.containers:
            console.print(f"[bold]$ kubectl logs {pod.metadata.name} -c {container.name}[/bold]")
            text = await transport.read_log(pod.metadata.namespace, pod.metadata.name, container.name)
            for line in text.splitlines():
                console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
