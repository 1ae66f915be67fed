"""The figures of several processes as those of one API server.

Where several processes answer on one port, each counts what it has answered, and a scrape reaches any of them. A
counter that is another process' each time looks like one that is restarted all the time, so every scrape is answered
with the figures of all processes together.

A series is known by its text, name and labels as they are written: one generator has written all texts, labels in order
(`metrics`). So numbers alone are read. For four texts of 4,700 lines that takes some 20 milliseconds, and with
prometheus_client's parser it would keep the event loop from everything else for 0.7 seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = ["COMMON", "merged"]

_Series = dict[str, float]
"""Values by name and labels, as they are written."""
_HEADS: Final = ("# HELP ", "# TYPE ")


def merged(texts: Sequence[bytes]) -> bytes:
    """The expositions (text format 0.0.4, without timestamps) of one API server's processes as that of the server: the
    sums, except for what is `COMMON` to them. The text of the process that has the store comes first.

    Families and series stand in the order in which they are met. One text alone is returned as it is.

    Raises:
        ValueError: a text is no exposition, or there is none.
    """
    if not texts:
        raise ValueError("there are no figures to merge; give those of at least one process")
    if len(texts) == 1:
        return texts[0]
    families: dict[str, _Family] = {}
    for text in texts:
        for family in _families(text.decode()):
            known = families.setdefault(family.name, family)
            if known is not family:
                known.series = COMMON.get(family.name, _added)(known.series, family.series)
    return "".join(line for family in families.values() for line in family.lines()).encode()


def _added(one: _Series, other: _Series) -> _Series:
    for series, value in other.items():
        one[series] = one.get(series, 0.0) + value
    return one


def _first(one: _Series, _: _Series) -> _Series:
    """Only the first process': another one's may be a moment behind, also in which series there are."""
    return one


def _earliest(one: _Series, other: _Series) -> _Series:
    return {series: min(value, other.get(series, value)) for series, value in one.items()}


COMMON: Final[Mapping[str, Callable[[_Series, _Series], _Series]]] = MappingProxyType(
    {
        # The objects of the one store, which each process holds all of.
        "apiserver_storage_objects": _first,
        "apiserver_resource_objects": _first,
        # The server has run for as long as its first process; a child may have been started again since.
        "process_start_time_seconds": _earliest,
    }
)
"""What the processes have in common, so that a sum would be wrong → what it is merged to. All other figures are about
each process' own work and means, and are added; so are limits of means, with which alerts compare them."""


@dataclass(slots=True)
class _Family:
    """A metric: what it is, and its series."""

    name: str
    head: list[str] = field(default_factory=list)
    series: _Series = field(default_factory=dict)

    def lines(self) -> Iterable[str]:
        yield from self.head
        for series, value in self.series.items():
            yield f"{series} {value!r}\n"


def _families(text: str) -> Iterator[_Family]:
    family: _Family | None = None
    # Not `splitlines`: a label's value may hold what ends a line elsewhere.
    for line in text.split("\n"):
        if line.startswith(_HEADS):
            name = line.split(" ", 3)[2]
            if family is None or family.name != name:
                if family is not None:
                    yield family
                family = _Family(name)
            family.head.append(f"{line}\n")
        elif line and not line.startswith("#"):
            if family is None:
                raise ValueError(f"{line!r} stands before any # HELP and # TYPE")
            series, _, value = line.rpartition(" ")
            family.series[series] = float(value)
    if family is not None:
        yield family
