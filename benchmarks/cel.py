"""Selectors: the time of a compilation, and of an evaluation on a device.

Six typical selectors, over 1,000 devices. «Cold» is the first evaluation on a prepared device, by the compiled code,
without a memo; «counted» uses the evaluator that counts costs and explains; «memoised» repeats the evaluation for a
device of the same signature. «Prepare» is the conversion of a slice's device, once per signature.

Kubernetes' figures are those of its Go implementation (1.36) on one processor of a machine of this kind: 75 to 286 µs
per compilation and 6.6 to 10.9 µs per evaluation, the conversion of the device included.

    python -m benchmarks cel
    python benchmarks/cel.py
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from cathedra.api.quantity import Quantity
from cathedra.cel.device import DeviceView
from cathedra.cel.selector import CompiledSelector, compile_selector

Row = tuple[str, float, str, str | float | None, str | float | None]

DEVICES: Final = 1_000
REPEATS: Final = 7
DRIVER: Final = "gpu.example.com"
SELECTORS: Final = {
    "driver": f'device.driver == "{DRIVER}"',
    "three attributes": (
        f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "a100"'
        f' && device.attributes["{DRIVER}"].numa < 1'
    ),
    "version": f'device.attributes["{DRIVER}"].driverVersion.compareTo(semver("550.0.0")) >= 0',
    "capacity": f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))',
    "optional": f'device.attributes["{DRIVER}"].?ecc.orValue(false)',
    "bind": f'cel.bind(a, device.attributes["{DRIVER}"], a.model in ["a100", "h100"] && a.index >= 2 && a.ready)',
}
_COMPILE: Final = ("75–286", 300.0)
_EVALUATE: Final = ("6.6–10.9", 0.5)


@dataclass(frozen=True)
class Attribute:
    """A device attribute, as a slice has it."""

    int_: int | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Capacity:
    """A device capacity, as a slice has it."""

    value: Quantity


def device(number: int) -> DeviceView:
    """One of the devices, ready for evaluation."""
    attributes = {
        "model": Attribute(string="a100" if number % 4 else "h100"),
        "numa": Attribute(int_=number % 2),
        "index": Attribute(int_=number % 8),
        "uuid": Attribute(string=f"GPU-{number:08d}"),
        "driverVersion": Attribute(version="550.54.15" if number % 3 else "535.1.0"),
        "ready": Attribute(bool_=True),
    }
    if number % 2:
        attributes["ecc"] = Attribute(bool_=True)
    return DeviceView.of(DRIVER, False, attributes, {"memory": Capacity(Quantity("80Gi" if number % 4 else "16Gi"))})


def best(work: Callable[[], object], operations: int, repeats: int = REPEATS) -> float:
    """Microseconds per operation: the best of several runs, since others may use the machine."""
    gc.collect()
    gc.disable()
    try:
        spans = []
        for _ in range(repeats):
            start = perf_counter()
            work()
            spans.append(perf_counter() - start)
    finally:
        gc.enable()
    return min(spans) / operations * 1e6


def compiled(expression: str) -> CompiledSelector:
    """A selector, compiled from scratch, down to Python code."""
    selector = compile_selector(expression, mode="new")
    selector.prepare()
    return selector


def rows() -> Iterator[Row]:
    """Compilation, evaluation cold, counted and memoised, for each selector; then devices per second."""
    views = [device(number) for number in range(DEVICES)]
    for name, expression in SELECTORS.items():
        yield (
            f"cel: compile ({name})",
            best(lambda e=expression: [compiled(e) for _ in range(4)], 4, 60),
            "µs",
            *_COMPILE,
        )
    cold: list[float] = []
    for name, expression in SELECTORS.items():
        selector = compiled(expression)
        taken = best(lambda ask=selector.decide: [ask(view) for view in views], DEVICES)
        cold.append(taken)
        yield f"cel: evaluate, cold ({name})", taken, "µs", *_EVALUATE
    for name, expression in SELECTORS.items():
        selector = compiled(expression)
        taken = best(lambda ask=selector.outcome: [ask(view) for view in views], DEVICES)
        yield f"cel: evaluate, counted ({name})", taken, "µs", _EVALUATE[0], None
    for name, expression in SELECTORS.items():
        selector = compiled(expression)
        for view in views:
            selector.matches(view)
        taken = best(lambda ask=selector.matches: [ask(view) for view in views], DEVICES)
        yield f"cel: match, memoised ({name})", taken, "µs", _EVALUATE[0], 0.1
    yield (
        "cel: prepare a device",
        best(lambda: [device(number) for number in range(DEVICES)], DEVICES),
        "µs",
        None,
        None,
    )
    yield "cel: evaluations per second, cold, all selectors", 1e6 / statistics.mean(cold), "/s", "≈ 120,000", 2e6


def main() -> None:
    """Print the table of this module alone."""
    from benchmarks.measurement import Measurement

    for row in rows():
        print(Measurement(*row).line(), flush=True)


if __name__ == "__main__":
    main()
