"""Simulated GPUs that can be cut as data centre GPUs can: parts of several sizes, each in some places only.

An 80 GB GPU has seven slices of compute and eight of memory. Every part is published in every place where it may lie,
named as NVIDIA's driver names it (``gpu-0-mig-1g10gb-19-0``: size, profile, first slice of memory), and consumes the
slices there; the allocator sees to it that parts do not overlap. The table is that of the A100 and H100 with 80 GB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from cathedra.driver import Device, Pool
from cathedra.driver.device import AttributeValue
from cathedra.drivers.example.gpu import GpuOptions, gpu_attributes
from cathedra.drivers.example.profile import Site, device_uuid

MEMORY_SLICES: Final = 8
MULTIPROCESSORS: Final = 132


class MigSize(msgspec.Struct, frozen=True):
    """A size of partition: its part of a GPU, and the memory slices at which it may begin."""

    name: str
    profile: int
    """The number by which NVML knows the size."""
    memory: str
    multiprocessors: int
    copy_engines: int
    memory_slices: int
    starts: tuple[int, ...]


MIG_SIZES: Final = (
    MigSize("1g.10gb", 19, "9856Mi", 16, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    MigSize("1g.20gb", 15, "19968Mi", 26, 1, 2, (0, 2, 4, 6)),
    MigSize("2g.20gb", 14, "19968Mi", 32, 2, 2, (0, 2, 4)),
    MigSize("3g.40gb", 9, "40320Mi", 60, 3, 4, (0, 4)),
    MigSize("4g.40gb", 5, "40320Mi", 64, 4, 4, (0,)),
    MigSize("7g.80gb", 0, "80640Mi", 132, 8, 8, (0,)),
)


def mig_pool(site: Site, options: GpuOptions) -> Pool:
    """Return a pool of N GPUs, each published whole and as every partition in every place; ``type`` and ``profile``
    distinguish them.
    """
    indices = range(options.count)
    return Pool(
        devices=tuple(device for index in indices for device in _forms_of(site, index, options)),
        counters={_counter_set(index): _counters(MIG_SIZES[-1], range(MEMORY_SLICES)) for index in indices},
    )


def _forms_of(site: Site, index: int, options: GpuOptions) -> Iterator[Device]:
    whole = gpu_attributes(site, index, options)
    for size in MIG_SIZES:
        for start in size.starts:
            yield _part(site, index, size, start, whole)
    yield Device(
        f"gpu-{index}",
        attributes={**whole, "profile": "full"},
        capacity={"memory": options.memory, "multiprocessors": MULTIPROCESSORS, "copyEngines": 8},
        consumes={_counter_set(index): _counters(MIG_SIZES[-1], range(MEMORY_SLICES))},
    )


def _part(site: Site, index: int, size: MigSize, start: int, whole: Mapping[str, AttributeValue]) -> Device:
    name = f"gpu-{index}-mig-{size.name.replace('.', '')}-{size.profile}-{start}"
    places = range(start, start + size.memory_slices)
    return Device(
        name,
        attributes={
            **whole,
            "type": "mig",
            "profile": size.name,
            "uuid": device_uuid(site, "MIG", name),
            "parentUUID": whole["uuid"],
        },
        capacity=_capacity(size),
        consumes={_counter_set(index): _counters(size, places)},
    )


def _capacity(size: MigSize) -> dict[str, str | int]:
    return {"memory": size.memory, "multiprocessors": size.multiprocessors, "copyEngines": size.copy_engines}


def _counters(size: MigSize, places: range) -> dict[str, str | int]:
    """Counters are DNS labels, so the names of capacities are spelled with dashes."""
    amounts = {name.replace("copyEngines", "copy-engines"): amount for name, amount in _capacity(size).items()}
    return {**amounts, **{f"memory-slice-{place}": 1 for place in places}}


def _counter_set(index: int) -> str:
    return f"gpu-{index}-counter-set"
