"""Times as the Kubernetes API writes them: RFC 3339 in UTC, to the second (`Time`) or the microsecond (`MicroTime`).

Every condition, lease and deletion carries one. They are values: comparable, hashable, and equal when the instant is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, Self, TypeVar

from cathedra.remembering import remembered

MICROS: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})([.,]\d+)?(Z|[+-]\d{2}:\d{2})", re.ASCII)


T = TypeVar("T", bound="Time")

BEGINNING: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The instant that Kubernetes takes for none and writes as null, in microseconds since 1970."""

_CYCLE_YEARS: Final = 400
_CYCLE: Final = 146_097 * 86_400 * MICROS
"""Microseconds of 400 years, after which the calendar repeats itself."""
_LEAP_YEAR: Final = 366 * 86_400 * MICROS
_FIRST: Final = BEGINNING - _LEAP_YEAR
_END: Final = BEGINNING + 25 * _CYCLE - _LEAP_YEAR
"""The years 0 and 10,000 have 366 days each."""


class TimeError(ValueError):
    """A text is no RFC 3339 time."""


class Time:
    """An instant, to the second."""

    __slots__ = ("micros", "text", "written")

    micros: int
    text: str
    """As the API writes it, unless it is `BEGINNING`."""
    written: str | None
    """As the API writes it."""

    def __new__(cls, epoch_seconds: float) -> Self:
        return _second(epoch_seconds // 1)  # type: ignore[return-value]  # `MicroTime` has its own

    def _set(self, micros: int, text: str = "") -> None:
        """``text``: as the API writes it, if that is known."""
        object.__setattr__(self, "micros", micros)
        text = text or self._format(micros)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "written", None if micros == BEGINNING else text)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the instant that an RFC 3339 text names; finer digits are cut off.

        Raises:
            TimeError: it is not of that form, or no such day exists.
        """
        key: Any = cls
        parse = _kept_parsed if len(text) <= _LONGEST_KEPT else _parsed
        parsed: Self = parse(key, text)
        return parsed

    @classmethod
    def of_micros(cls, micros: int) -> Self:
        """Return the instant at a number of microseconds after the Unix epoch, cut to this type's precision.

        Raises:
            OverflowError: it is outside of the years 0 to 9999, and could not be written in RFC 3339.
        """
        if not _FIRST <= micros < _END:
            raise OverflowError(f"{micros} microseconds after 1970 are outside of the years 0 to 9999")
        made = object.__new__(cls)
        made._set(cls._cut(micros))
        return made

    @staticmethod
    def _cut(micros: int) -> int:
        return micros // MICROS * MICROS

    @staticmethod
    def _format(micros: int) -> str:
        return _to_the_second(micros)

    @property
    def is_zero(self) -> bool:
        """True if it is the instant that Kubernetes takes for none and writes as null: the beginning of year 1."""
        return self.micros == BEGINNING

    @property
    def timestamp(self) -> float:
        """Seconds since the Unix epoch."""
        return self.micros / MICROS

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a time is immutable: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self.micros == other.micros

    def __lt__(self, other: Time) -> bool:
        return self.micros < other.micros

    def __le__(self, other: Time) -> bool:
        return self.micros <= other.micros

    def __gt__(self, other: Time) -> bool:
        return self.micros > other.micros

    def __ge__(self, other: Time) -> bool:
        return self.micros >= other.micros

    def __hash__(self) -> int:
        return hash(self.micros)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({self.text!r})"

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return (type(self).of_micros, (self.micros,))


class MicroTime(Time):
    """An instant, to the microsecond; six digits are always written."""

    __slots__ = ()

    def __new__(cls, epoch_seconds: float) -> Self:
        made = object.__new__(cls)
        made._set(round(epoch_seconds * MICROS))
        return made

    @staticmethod
    def _cut(micros: int) -> int:
        return micros

    @staticmethod
    def _format(micros: int) -> str:
        past = micros % MICROS
        return f"{_to_the_second(micros - past)[:-1]}.{past:06}Z"


@remembered("api.timestamp.second", size=1024)
def _second(second: float) -> Time:
    """Remembered, since everything that is written in one second carries the same time."""
    made = object.__new__(Time)
    made._set(int(second) * MICROS)
    return made


@remembered("api.timestamp.to_the_second", size=1024)
def _to_the_second(micros: int) -> str:
    year, moment = _calendar(micros)
    return f"{year}-{moment:%m-%dT%H:%M:%SZ}"


def _calendar(micros: int) -> tuple[str, datetime]:
    """Return the year in four digits, and a moment with the same month, day and time of day: Python has no year 0."""
    if micros >= BEGINNING:
        moment = _EPOCH + timedelta(microseconds=micros)
        return f"{moment.year:04}", moment
    return "0000", _EPOCH + timedelta(microseconds=micros + _CYCLE)


_LONGEST_KEPT: Final = 64
"""Characters of a text that is kept parsed; a fraction may have any number of digits."""


_WRITTEN: Final = re.compile(r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\dZ", re.ASCII)
"""The form in which a `Time` is written."""


def _parsed(kind: type[T], text: str) -> T:
    # Nearly every text is one that a server has written. Read by Python's own parser, and not written again, it takes a
    # quarter of the time: a store of 100,000 pods has some 200,000 times, each of its own.
    if kind is Time and _WRITTEN.fullmatch(text):
        try:
            seconds = int(datetime.fromisoformat(text).timestamp())
        except ValueError:
            pass  # it names no day, or one of the year 0, which Python does not have
        else:
            made = object.__new__(kind)
            made._set(seconds * MICROS, text)
            return made
    return kind.of_micros(_micros(text))


_kept_parsed: Final = remembered("api.timestamp.parsed", size=4096)(_parsed)


def _micros(text: str) -> int:
    shape = _RFC3339.fullmatch(text)
    if shape is None:
        raise TimeError(f"{text!r} is not an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in shape.groups()[:6])
    fraction = int(((shape[7] or ".0")[1:] + "000000")[:6])
    try:
        # The calendar repeats itself; Python has no year 0.
        known = year or _CYCLE_YEARS
        moment = datetime(known, month, day, hour, minute, second, fraction, _zone(shape[8]))
    except ValueError as error:
        raise TimeError(f"{text!r} names no instant: {error}") from error
    micros = (moment - _EPOCH) // timedelta(microseconds=1) - (known - year) // _CYCLE_YEARS * _CYCLE
    if not _FIRST <= micros < _END:
        raise TimeError(f"{text!r} names no instant: in UTC it is outside of the years 0 to 9999")
    return micros


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return timezone(-offset if text[0] == "-" else offset)
