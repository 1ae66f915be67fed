"""Metrics in Prometheus' text format, written as Go's client library writes them.

prometheus_client appends ``_total`` to the name of every counter, writes bounds as ``1.0`` and adds ``_created``
series. Kubernetes' parts do none of that, and dashboards match names and bounds literally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import isinf, isnan
from typing import Any, Final, NamedTuple, Protocol

from cathedra.histogram import Histogram

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_LEAST_PLAIN: Final = -4
_FIRST_EXPONENT: Final = 6
"""Powers of ten from which on, and below `_LEAST_PLAIN`, Go writes an exponent."""


class Metric(NamedTuple):
    """Name, type and labels of a metric."""

    name: str
    kind: str
    """``counter``, ``gauge`` or ``histogram``."""
    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One value of a series."""

    name: str
    labels: Mapping[str, str]
    value: float


class _AnyFamily(Protocol):
    """A family of series: one of these, or prometheus_client's."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def documentation(self) -> str: ...

    @property
    def samples(self) -> Sequence[Any]: ...


class Family:
    """The series of one metric; a collector of prometheus_client may yield it."""

    __slots__ = ("_metric", "samples")

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self.samples: list[Sample] = []

    @property
    def name(self) -> str:
        """The name of the metric."""
        return self._metric.name

    @property
    def type(self) -> str:
        """The type of the metric."""
        return self._metric.kind

    @property
    def documentation(self) -> str:
        """Return the help text of the metric."""
        return self._metric.help

    def add(self, labels: Sequence[str], value: float) -> None:
        """Add the series with these values of the metric's labels."""
        self.samples.append(Sample(self.name, self._labels(labels), value))

    def add_histogram(self, labels: Sequence[str], histogram: Histogram) -> None:
        """Add the buckets, sum and count of a histogram."""
        shown = self._labels(labels)
        count = 0.0
        for bound, count in histogram.cumulative():
            self.samples.append(Sample(f"{self.name}_bucket", {**shown, "le": bound}, count))
        self.samples.append(Sample(f"{self.name}_sum", shown, histogram.total))
        self.samples.append(Sample(f"{self.name}_count", shown, count))

    def _labels(self, values: Sequence[str]) -> dict[str, str]:
        return dict(zip(self._metric.labels, values, strict=True))


def text_of(families: Iterable[_AnyFamily]) -> bytes:
    """Return families in the text format. A family without series is left out, as Go's library does."""
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: _AnyFamily) -> Iterator[str]:
    # prometheus_client adds a ``_created`` series to each counter and histogram, which Go's library does not know.
    samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    if not samples:
        return
    # Only prometheus_client's own counters have another name than their series.
    name = samples[0].name if family.type == "counter" else family.name
    yield f"# HELP {name} {_escaped(family.documentation)}\n"
    yield f"# TYPE {name} {family.type}\n"
    for sample in samples:
        labels = ",".join(
            f'{key}="{_quoted(value, key)}"' for key, value in sorted(sample.labels.items(), key=_by_name)
        )
        yield f"{sample.name}{f'{{{labels}}}' if labels else ''} {go_number(sample.value)}\n"


def _by_name(label: tuple[str, str]) -> tuple[bool, str]:
    """Return the order of labels: by name, the bound of a bucket last."""
    return label[0] == "le", label[0]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str, key: str) -> str:
    if key == "le" and value != "+Inf":
        return go_number(float(value))
    return _escaped(value).replace('"', '\\"')


def go_number(value: float) -> str:
    """Return a number as Go's ``strconv.FormatFloat(value, 'g', -1, 64)`` writes it."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"  # Decimal would keep the sign
    # repr has the shortest digits that read back as the same number, as Go has them.
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    if _LEAST_PLAIN <= power < _FIRST_EXPONENT:
        return f"{value:.{max(0, -int(exponent))}f}"
    shown = "".join(map(str, digits))
    fraction = f".{shown[1:]}" if len(shown) > 1 else ""
    return f"{'-' if sign else ''}{shown[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
