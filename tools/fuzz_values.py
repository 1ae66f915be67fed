"""Fuzzing of the small languages inside objects: quantities, times, selectors, schedules, field sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, Final

from cathedra.api.quantity import Quantity, QuantityError
from cathedra.api.selectors import SelectorError, parse_field_selector, parse_label_selector
from cathedra.api.timestamp import MicroTime, Time, TimeError
from cathedra.kinds.batch.cronjobs import ScheduleError, most_recent, parse_schedule
from tools.fuzzing import Layer

__all__ = ["NAMES", "Unstable", "layer"]


class Unstable(Exception):
    """A value that was read, written and read again has changed."""


_WITHOUT_SUFFIX: Final = 10**21 * 10**9


def _quantity(data: bytes) -> None:
    first = Quantity(data.decode("utf-8", "replace"))
    again = Quantity(str(first))
    # A multiple of 1000E has no suffix, and Kubernetes writes it without one: 1000000E is written "1".
    if abs(first.nanos) >= _WITHOUT_SUFFIX:
        return
    if again != first or str(again) != str(first):
        raise Unstable(f"{data!r} is {first}, read again {again}")
    for reading in (first.value, first.milli_value, first.sign):
        reading()


def _time(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for kind in (Time, MicroTime):
        moment = kind.parse(text)
        if kind.parse(str(moment)) != moment and kind is MicroTime:
            raise Unstable(f"{text!r} is {moment}")


def _label_selector(data: bytes) -> None:
    selector = parse_label_selector(data.decode("utf-8", "replace"))
    selector.matches({"a": "b", "c": "1"})
    if str(parse_label_selector(str(selector))) != str(selector):
        raise Unstable(f"{data!r} is {selector}")


def _field_selector(data: bytes) -> None:
    parse_field_selector(data.decode("utf-8", "replace")).matches({"metadata.name": "x"})


def _schedule(data: bytes) -> None:
    schedule = parse_schedule(data.decode("utf-8", "replace"), UTC)
    schedule.after(1_700_000_000.0)
    most_recent(schedule, 1_700_000_000.0, 1_700_086_400.0)


_Layer = tuple[Callable[[bytes], Any], Sequence[bytes], tuple[type[BaseException], ...]]
_VALUES: Final[dict[str, _Layer]] = {
    "quantities": (
        _quantity,
        (b"1", b"-1.5Gi", b"100m", b"1e3", b"12E", b"0.000000001", b"9223372036854775807", b"1E+3", b".5Mi", b"+1n"),
        (QuantityError,),
    ),
    "times": (
        _time,
        (
            b"2024-02-29T23:59:59Z",
            b"2024-01-01T00:00:00.123456Z",
            b"0001-01-01T00:00:00Z",
            b"2024-01-01T00:00:00+05:30",
        ),
        (TimeError,),
    ),
    "label-selectors": (
        _label_selector,
        (b"a=b,c!=d", b"a in (b,c),!d", b"a notin (),b", b"x.io/a>1,b<2", b"a==b", b"(", b"a,,b", b"a in (b"),
        (SelectorError,),
    ),
    "field-selectors": (
        _field_selector,
        (b"metadata.name=x", b"metadata.name!=x,spec.nodeName==", b"a=\\,b\\=c\\\\", b"=", b","),
        (SelectorError,),
    ),
    "schedules": (
        _schedule,
        (
            b"*/5 * * * *",
            b"0 0 29 2 *",
            b"@every 1h30m",
            b"@monthly",
            b"1-5/2 0 1,15 JAN-MAR MON",
            b"0 0 31 2 *",
            b"60 * * * *",
        ),
        (ScheduleError,),
    ),
}
NAMES: Final = tuple(_VALUES)


def layer(name: str) -> Layer:
    """The layer of that name."""
    take, seeds, refusals = _VALUES[name]
    return Layer(name, take, lambda: seeds, refusals)
