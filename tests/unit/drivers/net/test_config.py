"""Addresses of a range are given out one by one."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.driver import ConfigError
from cathedra.drivers.net.config import free_address, read_parameters


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


def test_names_addresses_and_routes_are_read() -> None:
    read = read_parameters(
        {
            "interface": {
                "name": "eth1",
                "addresses": ["10.0.0.5/24"],
                "mtu": 1400,
                "hardwareAddr": "02:00:00:00:00:05",
            },
            "routes": [{"destination": "10.1.0.0/16", "gateway": "10.0.0.1"}],
        }
    )
    assert (read.interface.name, read.interface.mtu, read.interface.mac) == ("eth1", 1400, "02:00:00:00:00:05")
    assert read.routes[0].gateway == "10.0.0.1"
    assert read_parameters({"apiVersion": "a/v1", "kind": "K"}).interface.addresses == []


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"interface": {"name": "a-name-that-is-too-long"}}, "is no name of an interface"),
        ({"interface": {"name": "a/b"}}, "is no name of an interface"),
        ({"interface": {"addresses": ["10.0.0.5"]}}, "must have a prefix length"),
        ({"interface": {"addresses": ["10.0.0.500/24"]}}, "10.0.0.500/24"),
        ({"interface": {"hardwareAddr": "02-00"}}, "must be like 02:00"),
        ({"routes": [{"destination": "everywhere"}]}, "everywhere"),
        ({"routes": [{"destination": "10.0.0.0/8", "gateway": "up"}]}, "up"),
        ({"ethtool": {}}, "unknown field `ethtool`"),
    ],
)
def test_what_cannot_be_done_is_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_parameters(values)
    assert problem in str(refused.value)
