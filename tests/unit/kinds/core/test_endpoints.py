"""Rows of endpoints and endpoint slices."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1, discovery_v1
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row

FIVE = [{"ip": f"10.0.0.{number}"} for number in range(5)]


@pytest.mark.parametrize(
    ("subsets", "shown"),
    [
        ([], "<none>"),
        ([{"addresses": FIVE[:2], "ports": [{"port": 80}]}], "10.0.0.0:80,10.0.0.1:80"),
        ([{"addresses": FIVE[:1]}], "10.0.0.0"),
        ([{"addresses": FIVE, "ports": [{"port": 1}, {"port": 2}]}], "10.0.0.0:1,10.0.0.1:1,10.0.0.2:1 + 7 more..."),
        ([{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 80}]}], "[fd00::1]:80"),
    ],
)
def test_endpoints_show_three_addresses(subsets: list[Any], shown: str) -> None:
    assert row("endpoints", from_dict(core_v1.Endpoints, {"subsets": subsets}))["Endpoints"] == shown


def test_a_slice_shows_ports_by_number_or_name() -> None:
    values = {
        "addressType": "IPv4",
        "ports": [{"port": 80}, {"name": "dns"}, {}],
        "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}],
    }
    found = row("endpointslices", from_dict(discovery_v1.EndpointSlice, values))
    assert (found["AddressType"], found["Ports"], found["Endpoints"]) == ("IPv4", "80,dns,*", "10.0.0.1,10.0.0.2")
    empty = row("endpointslices", from_dict(discovery_v1.EndpointSlice, {}))
    assert (empty["Ports"], empty["Endpoints"]) == ("<unset>", "<unset>")
