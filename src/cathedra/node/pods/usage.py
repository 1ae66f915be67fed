"""Resource usage of the node's pods, in the form of ``/stats/summary`` (docs/spec/node.md §17.10).

The kernel counts processor time; a rate needs two readings. The last reading is therefore kept. The first rate covers
the time since the container started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from cathedra.api.struct import Time
from cathedra.clock import Clock
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.pods.podmanager import PodManager
from cathedra.node.runtime.runtime import ContainerRun, ContainerUsage, Runtime

_SHORTEST: Final = 5.0
"""Seconds between two readings of a rate."""
_NANOSECONDS: Final = 10**9


class _UsageSample(msgspec.Struct, frozen=True):
    at: float
    counted: int
    """The processor time at that moment, from which the next rate is reckoned."""
    used: ContainerUsage
    """Usage at the last reading."""
    rate: int
    """Nanoseconds of processor time per second."""


class UsageMeter:
    """Reads what the containers of ``pods`` use, on the node ``name``."""

    def __init__(self, name: str, pods: PodManager, runtime: Runtime, clock: Clock) -> None:
        self._name = name
        self._pods = pods
        self._runtime = runtime
        self._clock = clock
        self._began = clock.now()
        self._readings: dict[str, _UsageSample] = {}

    async def summary(self) -> dict[str, Any]:
        """Return the node's figures, and those of each pod with a container that runs."""
        used = await self._runtime.usage()
        now = self._clock.now()
        readings: dict[str, _UsageSample] = {}
        pods = []
        for worker in self._pods.workers():
            containers = [
                _container(record.name, record.current, self._read(record.current, used, now, readings), now)
                for record in worker.records
                if _is_measured(record, used) and record.current is not None
            ]
            if containers:
                metadata = worker.pod.metadata
                reference = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
                started = min(container["startTime"] for container in containers)
                pods.append({"podRef": reference, "startTime": started, "containers": containers})
        self._readings = readings
        total = ContainerUsage(
            sum(reading.used.cpu_nanoseconds for reading in readings.values()),
            sum(reading.used.memory for reading in readings.values()),
        )
        rate = sum(reading.rate for reading in readings.values())
        node = {"nodeName": self._name, "startTime": str(Time(self._began)), **_figures(total, rate, now)}
        return {"node": node, "pods": pods}

    def _read(
        self, run: ContainerRun, used: Mapping[str, ContainerUsage], now: float, readings: dict[str, _UsageSample]
    ) -> _UsageSample:
        seen, before = used[run.id], self._readings.get(run.id)
        if before is not None and now - before.at < _SHORTEST:
            reading = replace(before, used=seen)
        else:
            start, spent = (run.started_at, 0) if before is None else (before.at, before.counted)
            seconds = max(now - start, 1 / _NANOSECONDS)
            rate = max(0, int((seen.cpu_nanoseconds - spent) / seconds))
            reading = _UsageSample(now, seen.cpu_nanoseconds, seen, rate)
        readings[run.id] = reading
        return reading


def _is_measured(record: ContainerRecord, used: Mapping[str, ContainerUsage]) -> bool:
    return record.running and record.current is not None and record.current.id in used


def _container(name: str, run: ContainerRun, reading: _UsageSample, now: float) -> dict[str, Any]:
    return {"name": name, "startTime": str(Time(run.started_at)), **_figures(reading.used, reading.rate, now)}


def _figures(used: ContainerUsage, rate: int, now: float) -> dict[str, Any]:
    time = str(Time(now))
    cpu = {"time": time, "usageNanoCores": rate, "usageCoreNanoSeconds": used.cpu_nanoseconds}
    return {"cpu": cpu, "memory": {"time": time, "workingSetBytes": used.memory}}
