"""Timestamps and durations: their texts, as Go reads and writes them, and their calendar fields
(docs/spec/cel.md §5)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from cathedra.api.boundedcache import cached_texts
from cathedra.cel.library.operators import timestamp_of
from cathedra.cel.values import MAX_INT, MIN_INT, CELValue, Duration, Failure, Timestamp

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LONGEST_WHOLE: Final = 19
"""Digits of the longest whole number of 64 bits."""
_PART: Final = re.compile(r"([0-9]*)(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MOMENT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parse_duration(text: str) -> Duration | None:
    """``1h30m``, ``-1.5s``; None if it is no duration or too long for 64 bits of nanoseconds."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    if not rest:
        return None
    total, position = 0, 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or not (match[1] or (match[2] or "")[1:]):
            return None
        whole = match[1].lstrip("0") or "0"
        # Longer numbers overflow in any unit; Python refuses to convert very long ones.
        if len(whole) > _LONGEST_WHOLE:
            return None
        unit = _UNITS[match[3]]
        total += int(whole) * unit
        fraction = (match[2] or ".")[1:]
        if fraction:
            # In doubles and cut off at 18 digits, as Go's ParseDuration reads fractions; exact arithmetic could differ
            # in the last nanosecond.
            total += int(int(fraction[:18]) * (unit / 10.0 ** len(fraction[:18])))
        position = match.end()
    total *= sign
    return Duration(total) if MIN_INT <= total <= MAX_INT else None


def duration_text(duration: Duration) -> str:
    """Return the seconds with the shortest fraction: ``90s``, ``1.5s``."""
    nanos = abs(duration.nanos)
    whole, rest = divmod(nanos, 10**9)
    fraction = f"{rest:09d}".rstrip("0")
    sign = "-" if duration.nanos < 0 else ""
    return f"{sign}{whole}{'.' + fraction if fraction else ''}s"


def parse_timestamp(text: str) -> Timestamp | Failure | None:
    """RFC 3339; None if it is not of that form, a failure if the moment is out of range."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(g) for g in match.groups()[:6])
    zone = match[8]
    shift = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes > 60:
            return None
        shift = (hours * 3600 + minutes * 60) * (1 if zone[0] == "+" else -1)
    days = _days(year, month, day)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    nanos = int(((match[7] or "") + "000000000")[:9])
    return timestamp_of((days * 86400 + hour * 3600 + minute * 60 + second - shift) * 10**9 + nanos, shift)


def _days(year: int, month: int, day: int) -> int | None:
    try:
        if year == 0:  # outside of Python's calendar; a leap year, like 400 years later
            return datetime.date(400, month, day).toordinal() - 146097 - 719163
        return datetime.date(year, month, day).toordinal() - 719163
    except ValueError:
        return None


def timestamp_text(timestamp: Timestamp) -> str:
    """RFC 3339 in the zone it was written in, with the shortest fraction."""
    seconds, rest = divmod(timestamp.nanos, 10**9)
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds + timestamp.offset)
    except OverflowError:  # beyond the calendar by the zone alone
        return timestamp_text(Timestamp(timestamp.nanos))
    minutes = abs(timestamp.offset) // 60
    zone = f"{'-' if timestamp.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if timestamp.offset else "Z"
    fraction = f"{rest:09d}".rstrip("0")
    # The year by itself: strftime pads it to four digits on some platforms only.
    shown = moment.strftime("%m-%dT%H:%M:%S")
    return f"{moment.year:04d}-{shown}{'.' + fraction if fraction else ''}{zone}"


def _local(timestamp: Timestamp, zone: str) -> datetime.datetime | Failure:
    moment = _EPOCH + datetime.timedelta(seconds=timestamp.nanos // 10**9)
    offset = _zone(zone)
    if isinstance(offset, Failure):
        return offset
    try:
        if isinstance(offset, int):
            return moment + datetime.timedelta(minutes=offset)
        return moment.astimezone(offset)
    except OverflowError:
        return Failure("timestamp overflow")


_OFFSET: Final = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{2})", re.ASCII)


@cached_texts(256)
def _zone(zone: str) -> datetime.tzinfo | int | Failure:
    if zone in ("UTC", ""):
        return datetime.UTC
    if ":" in zone:
        match = _OFFSET.fullmatch(zone)
        if match is None:
            return Failure(f'strconv.Atoi: parsing "{zone.partition(":")[0]}": invalid syntax')
        minutes = int(match[2]) * 60 + int(match[3])
        return -minutes if match[1] == "-" else minutes
    # start-up time: few expressions name a zone
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return Failure(f"unknown time zone {zone}")


def _field(pick: Callable[[datetime.datetime, int], int]) -> Callable[..., CELValue]:
    def of_timestamp(timestamp: Timestamp, zone: str = "UTC") -> int | Failure:
        moment = _local(timestamp, zone)
        return moment if isinstance(moment, Failure) else pick(moment, timestamp.nanos % 10**9)

    return of_timestamp


def _toward_zero(nanos: int, unit: int) -> int:
    # Go's division cuts off; Python's rounds down, and would make -1.5 h into -2.
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


class Getter(NamedTuple):
    """A calendar field: its name in the ids of overloads, and how it is found in a timestamp (with a time zone if one
    is given) and, if there is one, in a duration."""

    unit: str
    of_timestamp: Callable[..., CELValue]
    of_duration: Callable[[Duration], int] | None = None


GETTERS: Final = {
    "getFullYear": Getter("year", _field(lambda t, _: t.year)),
    "getMonth": Getter("month", _field(lambda t, _: t.month - 1)),
    "getDayOfYear": Getter("day_of_year", _field(lambda t, _: t.timetuple().tm_yday - 1)),
    "getDayOfMonth": Getter("day_of_month", _field(lambda t, _: t.day - 1)),
    "getDate": Getter("day_of_month_1_based", _field(lambda t, _: t.day)),
    "getDayOfWeek": Getter("day_of_week", _field(lambda t, _: t.isoweekday() % 7)),
    "getHours": Getter("hours", _field(lambda t, _: t.hour), lambda d: _toward_zero(d.nanos, 3600 * 10**9)),
    "getMinutes": Getter("minutes", _field(lambda t, _: t.minute), lambda d: _toward_zero(d.nanos, 60 * 10**9)),
    "getSeconds": Getter("seconds", _field(lambda t, _: t.second), lambda d: _toward_zero(d.nanos, 10**9)),
    "getMilliseconds": Getter("milliseconds", _field(lambda _, n: n // 10**6), lambda d: _toward_zero(d.nanos, 10**6)),
}
