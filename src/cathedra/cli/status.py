"""``cathedra status``: what runs on a cluster, who holds which device, and why pods wait."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, Final

from cathedra.cli.configuration import data_dir
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.informer import Informer
from cathedra.client.kubeconfig import load
from cathedra.client.resources import EVENTS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import SystemClock
from cathedra.cluster.datadir import DataDir
from cathedra.cluster.overview import Overview, read_overview

__all__ = ["run"]

PAUSE: Final = 0.3
"""Seconds between two screens: changes that come together are shown together."""


def run(arguments: argparse.Namespace) -> int:
    """Print it; 1 if nothing runs there."""
    data = DataDir(data_dir(arguments))
    pid = data.holder()
    if pid is None:
        print(f"no cluster is running on {data.path}; start one with: cathedra up", file=sys.stderr)
        return 1
    show = _show_json(pid, indent=None if arguments.watch else 2) if arguments.output == "json" else _drawn(pid, data)
    asyncio.run(_read(data, arguments.namespace, show, watch=arguments.watch))
    return 0


def _show_json(pid: int, indent: int | None) -> Callable[[Overview], None]:
    def show(overview: Overview) -> None:
        print(json.dumps(overview.to_json() | {"process": pid}, indent=indent), flush=True)

    return show


def _drawn(pid: int, data: DataDir) -> Callable[[Overview], None]:
    # rich is loaded only when something is drawn.
    from cathedra.cli.tables import draw, make_console

    console = make_console()

    def show(overview: Overview) -> None:
        if console.is_terminal and shown:
            console.clear()
        shown.append(overview)
        console.print(f"process {pid}, data in {data.path}", soft_wrap=True)
        console.print(f"export KUBECONFIG={data.kubeconfig}\n", soft_wrap=True)
        draw(overview, console)

    shown: list[Overview] = []
    return show


async def _read(data: DataDir, namespace: str, show: Callable[[Overview], None], *, watch: bool) -> None:
    async with await HTTPTransport.open(load(data.kubeconfig)) as transport:
        client = Client(transport, clock=SystemClock())
        if watch:
            await _follow(client, namespace, show)
        else:
            show((await read_overview(client)).of_namespace(namespace))


async def _follow(client: Client, namespace: str, show: Callable[[Overview], None]) -> None:
    """Show it again after every change, until interrupted."""
    clock = SystemClock()
    changed = asyncio.Event()

    def note(*_: Any) -> None:
        changed.set()

    shown: Overview | None = None
    async with asyncio.TaskGroup() as group:
        for ref in (NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, EVENTS):
            informer: Informer[Any] = Informer(client, ref, clock=clock)
            informer.add_handler(note, note, note)
            group.create_task(informer.run())
        while True:
            overview = (await read_overview(client)).of_namespace(namespace)
            if overview != shown:
                show(overview)
                shown = overview
            await clock.sleep(PAUSE)
            await changed.wait()
            changed.clear()
