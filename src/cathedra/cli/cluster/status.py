"""``cathedra status``: nodes, devices and their claims, pods, and reasons of pending pods."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from cathedra.api.status import StatusError
from cathedra.cli.cluster.remembered import remembered_gates
from cathedra.cli.configuration import selected_data
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.informer import Informer
from cathedra.client.kubeconfig import load
from cathedra.client.resources import EVENTS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import SystemClock
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import DEFAULT_NAME, kept_description, selecting
from cathedra.cluster.parts.generations import client_of_any_release
from cathedra.cluster.process.background import count_servers
from cathedra.cluster.views.overview import Overview, read_overview
from cathedra.printable import counted
from cathedra.releases import FeatureGates

PATIENCE: Final = 10.0
"""Seconds in which the process of a cluster without connections is expected to end."""
Look = Callable[[], Awaitable[Overview]]
PAUSE: Final = 0.3
"""Seconds between two screens: changes that come together are shown together."""


def run(arguments: argparse.Namespace) -> int:
    """Print it; 1 if nothing runs there."""
    data = selected_data(arguments)
    pid = data.holder()
    if pid is None:
        name = kept_description(data).name or arguments.name or arguments.cluster or DEFAULT_NAME
        start = f"cathedra up --detach{selecting(name, data.path)}"
        print(f"no cluster is running on {data.path}; start it with: {start}", file=sys.stderr)
        return 1
    show = _show_json(pid, indent=None if arguments.watch else 2) if arguments.output == "json" else _drawn(pid, data)
    gates = remembered_gates(data)
    if asyncio.run(_read(data, pid, gates, arguments.namespace, show, watch=arguments.watch)):
        return 0
    print(f"the cluster on {data.path} has stopped", file=sys.stderr)
    return 1


def _show_json(pid: int, indent: int | None) -> Callable[[Overview], None]:
    def show(overview: Overview) -> None:
        about = {"process": pid, "apiServers": count_servers(pid)}
        print(json.dumps(overview.to_json() | about, indent=indent), flush=True)

    return show


def _drawn(pid: int, data: DataDir) -> Callable[[Overview], None]:
    # rich is loaded only when something is drawn.
    from cathedra.cli.cluster.tables import draw, make_console

    console = make_console()

    def show(overview: Overview) -> None:
        if console.is_terminal and shown:
            console.clear()
        shown.append(overview)
        console.print(
            f"process {pid}, {counted(count_servers(pid), 'API server')}, data in {data.path}", soft_wrap=True
        )
        console.print(f"export KUBECONFIG={data.kubeconfig}\n", soft_wrap=True)
        draw(overview, console)

    shown: list[Overview] = []
    return show


async def _read(
    data: DataDir, pid: int, gates: FeatureGates, namespace: str, show: Callable[[Overview], None], *, watch: bool
) -> bool:
    """Show it, or go on showing it; False once the process of the cluster has ended."""
    async with await HTTPTransport.open(load(data.kubeconfig)) as transport:
        client = client_of_any_release(Client(transport, clock=SystemClock()))

        async def look() -> Overview:
            overview = (await read_overview(client, gates)).of_namespace(namespace)
            return replace(overview, warnings=await _warnings(transport))

        if not watch:
            show(await look())
            return True
        with _end_of(pid) as ended:
            await _follow(client, look, show, ended)
        return False


async def _warnings(transport: HTTPTransport) -> tuple[str, ...]:
    """Return a line if the API server's store refuses writes: reads succeed, so nothing else would show it."""
    try:
        await transport.get_raw("/readyz/etcd")
    except StatusError as error:
        if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return ()  # a server without this check
        return ("the store cannot be written, so every change is refused; see why with: cathedra logs apiserver",)
    return ()


@contextmanager
def _end_of(pid: int) -> Iterator[asyncio.Event]:
    """Yield an event that is set when the process has ended, or at once if it does not exist."""
    ended = asyncio.Event()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        ended.set()
        yield ended
        return
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        yield ended
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def _follow(client: Client, look: Look, show: Callable[[Overview], None], ended: asyncio.Event) -> None:
    """Show it again after every change, until the cluster has ended."""
    clock = SystemClock()
    changed = asyncio.Event()

    def note(*_: object) -> None:
        changed.set()

    informers: list[Informer[Any]] = [
        Informer(client, ref, clock=clock) for ref in (NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, EVENTS)
    ]
    for informer in informers:
        informer.add_handler(note, note, note)
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        await _show_changes(look, show, changed, ended)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _show_changes(
    look: Look, show: Callable[[Overview], None], changed: asyncio.Event, ended: asyncio.Event
) -> None:
    shown: Overview | None = None
    ending = asyncio.create_task(ended.wait())
    try:
        while not ending.done():
            try:
                overview = await look()
            except (OSError, StatusError):
                # A cluster that stops closes its connections some moments before its process ends.
                if not (await asyncio.wait((ending,), timeout=PATIENCE))[0]:
                    raise
                return
            if overview != shown:
                show(overview)
                shown = overview
            await SystemClock().sleep(PAUSE)
            changing = asyncio.create_task(changed.wait())
            await asyncio.wait((changing, ending), return_when=asyncio.FIRST_COMPLETED)
            changing.cancel()
            changed.clear()
    finally:
        ending.cancel()
