"""Schedules of cron jobs, as the parser that Kubernetes uses reads them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cathedra.kinds.batch.schedule import ScheduleError, parse_schedule

THURSDAY = datetime(2026, 1, 15, 10, 7, 30, tzinfo=UTC)


def following(text: str) -> str | None:
    moment = parse_schedule(text).after(THURSDAY.timestamp())
    return None if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("* * * * *", "01-15 10:08:00"),
        ("?/5 ? * * *", "01-15 10:10:00"),
        ("5/15 * * * *", "01-15 10:20:00"),
        ("1,,8 * * * *", "01-15 10:08:00"),
        ("+8 * * * *", "01-15 10:08:00"),
        ("@every 1h30m", "01-15 11:37:30"),
        ("0 0 * * mon-fri", "01-16 00:00:00"),
        ("0 0 31 2 *", None),
        ("0 0 , * *", None),
    ],
)
def test_the_next_time_is_found(text: str, wanted: str | None) -> None:
    assert following(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0 0 20 * 6", "01-17 00:00:00"),
        ("0 0 20 * *", "01-20 00:00:00"),
        ("0 0 */1 * 1", "01-19 00:00:00"),
        ("0 0 */2 * 1", "01-17 00:00:00"),
        ("0 0 20 * */6", "01-17 00:00:00"),
        ("0 0 1,* * 1", "01-19 00:00:00"),
    ],
)
def test_either_day_is_enough_if_both_are_restricted_and_a_step_restricts(text: str, wanted: str) -> None:
    assert following(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty spec string"),
        ("0 0 * *", "expected exactly 5 fields, found 4: [0 0 * *]"),
        ("0 0 * * 7", "end of range (7) above maximum (6): 7"),
        ("0 0 * * fri-mon", "beginning of range (5) beyond end of range (1): fri-mon"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("0 0 L * *", 'failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax'),
        (f"{2**63} * * * *", f'failed to parse int from {2**63}: strconv.Atoi: parsing "{2**63}": value out of range'),
        ("9" * 5000 + " * * * *", "value out of range"),
        ("@reboot", "unrecognized descriptor: @reboot"),
        ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
        ("@every 1x", 'failed to parse duration @every 1x: time: invalid duration "1x"'),
        ("@every .s", 'time: invalid duration ".s"'),
        ("@every 2562048h", 'time: invalid duration "2562048h"'),
        (f"@every {'9' * 5000}h", 'h"'),
    ],
)
def test_what_kubernetes_refuses_is_refused_in_its_words(text: str, why: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_schedule(text)
    assert str(refused.value).endswith(why)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h30m", 5400), ("1.5m", 90), ("+.5h", 1800), ("1s999ms", 1), ("10us", 1), ("-3h", 1), ("0", 1)],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: int) -> None:
    assert parse_schedule(f"@every {text}").after(1_700_000_000.0) == 1_700_000_000.0 + seconds


def test_nothing_happens_after_the_last_year_that_objects_can_name() -> None:
    assert parse_schedule("@every 2562047h").after(253_402_300_000.0) is None
