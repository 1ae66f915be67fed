"""Addresses of a range are given out one by one."""

from __future__ import annotations

import pytest

from cathedra.drivers.net.addresses import free_address


def test_the_lowest_free_address_is_given_until_all_are_taken() -> None:
    some = "10.0.0.9-10.0.0.11/24"
    assert free_address(some, ()) == "10.0.0.9/24"
    assert free_address(some, {"10.0.0.9/24", "10.0.0.11/24"}) == "10.0.0.10/24"
    assert free_address(some, {"10.0.0.9/24", "10.0.0.10/24", "10.0.0.11/24"}) is None
    assert free_address("fd00::ff-fd00::100/64", {"fd00::ff/64"}) == "fd00::100/64"


@pytest.mark.parametrize(
    "text", ["10.0.0.9", "10.0.0.9-10.0.0.11", "10.0.0.9-10.0.1.1/24", "10.0.0.9-10.0.0.1/24", "a-b/24"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|does not appear"):
        free_address(text, ())
