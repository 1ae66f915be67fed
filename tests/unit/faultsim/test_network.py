"""Connections of parts: partitions, faults of messages, and clock jumps."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.clock import LoopClock
from cathedra.faultsim.network import Link, Network, PartClock, PatientClock
from tests.running import on_virtual_clock


class Unseen:
    def acknowledged(self, *_: Any) -> None: ...

    def refused(self, *_: Any) -> None: ...

    def watched(self, *_: Any) -> None: ...


def test_a_fault_strikes_its_part_alone_and_only_while_it_lasts() -> None:
    network = Network(Random(1), Unseen())
    with network.disturbed("delays", "node-0", 1.0):
        assert network.strikes("delays", "node-0")
        assert not network.strikes("delays", "node-1")
        assert not network.strikes("conflicts", "node-0")
    assert network.quiet
    assert network.met == {"delays": 1}


@on_virtual_clock
async def test_without_a_server_and_after_its_death_a_part_reaches_nothing() -> None:
    link = Link(Network(Random(1), Unseen()), "node-0", "system:node:node-0")
    client = Client(link, clock=LoopClock(asyncio.get_running_loop()))
    for text in ("no server can be reached", "this part is dead"):
        with pytest.raises(ConnectionError, match=text):
            await client.resource(PODS).list()
        link.dead = True


@on_virtual_clock
async def test_clocks_have_a_wrong_time_or_long_pauses() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    wrong, patient = PartClock(clock), PatientClock(clock, 20.0)
    wrong.offset = -300.0
    assert wrong.now() == clock.now() - 300.0
    began = clock.monotonic()
    await wrong.sleep(1.0)
    await patient.sleep(1.0)
    assert clock.monotonic() - began == 21.0
