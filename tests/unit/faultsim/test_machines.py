"""Machines: deaths between two steps, checkpoints on full disks, and drivers' faults."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from cathedra.faultsim.machines import DeathAtStep, DriverFaults, FaultyCheckpoint
from cathedra.node.plugins.client import PluginCallError
from tests.running import on_virtual_clock


@on_virtual_clock
async def test_a_program_dies_at_the_step_that_was_counted_down_to() -> None:
    death, died = DeathAtStep(), []
    death.on_death = lambda: died.append(1)
    death.left = 2
    await death.reach()
    assert died == []
    with pytest.raises(asyncio.CancelledError):
        await death.reach()
    assert died == [1]


@on_virtual_clock
async def test_a_checkpoint_on_a_full_disk_keeps_what_it_had() -> None:
    checkpoint = FaultyCheckpoint(DeathAtStep())
    await checkpoint.save(())
    checkpoint.full = True
    with pytest.raises(OSError, match="No space left"):
        await checkpoint.save(())
    assert checkpoint.recorded() == frozenset()


@on_virtual_clock
async def test_a_driver_that_fails_goes_on_when_its_faults_end() -> None:
    faults = DriverFaults(Random(1))
    faults.failing = faults.lying = 1.0
    with pytest.raises(PluginCallError):
        await faults.before()
    assert faults.lies()
    faults.end()
    await faults.before()
    assert not faults.lies()
