"""Times: instants of a second or a microsecond, as RFC 3339 texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.timestamp import MicroTime, Time, TimeError


def test_a_time_is_read_in_any_zone_and_shown_in_utc() -> None:
    assert str(Time.parse("2024-01-01T01:00:00+01:00")) == "2024-01-01T00:00:00Z"
    assert str(Time.parse("2024-01-01T00:00:00.999Z")) == "2024-01-01T00:00:00Z"
    assert str(MicroTime.parse("2024-01-01T00:00:00.5Z")) == "2024-01-01T00:00:00.500000Z"


@settings(max_examples=50)
@given(st.integers(min_value=-(10**9), max_value=4 * 10**9))
def test_a_shown_time_reads_as_itself(seconds: int) -> None:
    moment = Time(seconds)
    assert Time.parse(str(moment)) == moment
    assert moment.timestamp == seconds


def test_times_are_ordered() -> None:
    assert Time(1) < Time(2) <= Time(2)
    assert Time(3) > Time(2)


def test_the_beginning_of_time_is_none() -> None:
    assert Time.parse("0001-01-01T00:00:00Z").is_zero
    assert not Time(0).is_zero


@pytest.mark.parametrize("text", ["2024", "2024-02-30T00:00:00Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00"])
def test_what_names_no_instant_is_refused(text: str) -> None:
    with pytest.raises(TimeError):
        Time.parse(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("0000-02-29T12:00:00Z", "0000-02-29T12:00:00Z"),
        ("0001-01-01T00:00:00+01:00", "0000-12-31T23:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("0400-01-01T00:00:00Z", "0400-01-01T00:00:00Z"),
        ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
    ],
)
def test_the_years_from_0_to_9999_are_read_and_written(text: str, shown: str) -> None:
    assert str(Time.parse(text)) == shown
    assert str(MicroTime.parse(text)) == shown.replace("Z", ".000000Z")


@pytest.mark.parametrize("text", ["0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "0000-02-30T00:00:00Z"])
def test_instants_that_cannot_be_written_again_are_refused(text: str) -> None:
    with pytest.raises(TimeError, match="names no instant"):
        Time.parse(text)


@given(st.integers(min_value=-(10**15), max_value=4 * 10**15))
def test_a_moment_is_written_as_python_writes_it(micros: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    assert str(MicroTime.of_micros(micros)) == f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
