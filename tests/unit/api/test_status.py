"""Failures of API calls as exceptions."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

from cathedra.api.field import MAX_TEXT, ErrorList
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, invalid, not_found
from cathedra.api.struct import encode


def test_a_failure_passes_between_processes() -> None:
    error = not_found(GroupResource("", "pods"), "one")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, StatusError)
    assert (copy.status, str(copy)) == (error.status, str(error))


def test_a_refusal_shows_five_hundred_errors_and_counts_the_rest() -> None:
    errors = ErrorList()
    for number in range(1000):
        errors.required(f"a[{number}]")
    refusal = invalid("g", "K", "x", errors)
    assert [cause.field for cause in refusal.causes] == [f"a[{number}]" for number in range(500)]
    assert refusal.status.message.startswith('K.g "x" is invalid: [a[0]: Required value, a[1]: Required value, ')
    assert refusal.status.message.endswith(", a[499]: Required value, and 500 more]")


def test_all_errors_that_fit_are_shown() -> None:
    errors = ErrorList()
    for number in range(500):
        errors.required(f"a[{number}]")
    assert "more" not in invalid("g", "K", "x", errors).status.message


def test_a_refusal_has_64_kib_of_errors_and_does_not_read_the_others() -> None:
    class Costly(list[str]):
        """A value that counts how often it is shown."""

        shown = 0

        def __iter__(self) -> Iterator[str]:
            Costly.shown += 1
            return super().__iter__()

    errors = ErrorList()
    value = Costly(["x" * 30_000])
    for number in range(100):
        errors.invalid(f"a[{number}]", value, "no")
    refusal = invalid("g", "K", "x", errors)
    assert (len(refusal.causes), Costly.shown) == (3, 3)
    assert len(encode(refusal.status)) < 2 * (MAX_TEXT + 1000)
    assert refusal.status.message.endswith("and 97 more]")
