"""The running cluster of a command. Apart from `source`, so that a command on a dump starts without a client."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from typing import Final

from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.informer import Informer
from cathedra.client.kubeconfig import Target
from cathedra.client.transport import RawTransport
from cathedra.clock import SystemClock
from cathedra.insight.reading.live import read_live, served_refs
from cathedra.insight.reading.state import ClusterState
from cathedra.releases import parse_overrides

PAUSE: Final = 0.3
"""Seconds between two screens: changes that come together are shown together."""


def target_of(arguments: argparse.Namespace) -> Target:
    """Return the API server's address and credentials.

    Raises:
        KubeconfigError: there is no usable configuration.
    """
    return kubeconfig.load(arguments.kubeconfig, context=arguments.context)


async def follow(arguments: argparse.Namespace, show: Callable[[ClusterState], object]) -> None:
    """Show the state again after every change of slices, claims, classes or taint rules, until interrupted.

    Raises:
        StatusError: the server refuses.
    """
    target = target_of(arguments)
    clock = SystemClock()
    changed = asyncio.Event()

    def note(*_: object) -> None:
        changed.set()

    async with await HTTPTransport.open(target) as transport, asyncio.TaskGroup() as group:
        client = Client(transport, clock=clock)
        for ref in await served_refs(transport, (ResourceSlice, ResourceClaim, DeviceClass, DeviceTaintRule)):
            informer = Informer(client, ref, clock=clock)
            informer.add_handler(note, note, note)
            group.create_task(informer.run())
        while True:
            changed.clear()
            show(await read_cluster(arguments))
            await changed.wait()
            await clock.sleep(PAUSE)


async def read_from(transport: RawTransport, target: Target, arguments: argparse.Namespace) -> ClusterState:
    """Read the cluster behind a transport that is open.

    Raises:
        ConnectionError: the server cannot be reached.
        StatusError: it refuses.
        UnknownGate: the version is not known.
    """
    return await read_live(
        transport,
        source=f"cluster {target.name}",
        now=SystemClock().now(),
        namespace=getattr(arguments, "namespace", "") or target.namespace,
        release=arguments.kubernetes_version,
        feature_gates=parse_overrides(arguments.feature_gates),
    )


async def read_cluster(arguments: argparse.Namespace) -> ClusterState:
    """Read the cluster that kubectl would use.

    Raises:
        KubeconfigError: there is no usable configuration.
        ConnectionError: the server cannot be reached.
        StatusError: it refuses.
        UnknownGate: the version is not known.
    """
    target = target_of(arguments)
    async with await HTTPTransport.open(target) as transport:
        return await read_from(transport, target, arguments)
