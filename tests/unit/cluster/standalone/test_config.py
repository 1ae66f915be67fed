"""Configuration of parts in processes of their own."""

from __future__ import annotations

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.identity.reach import own_address
from cathedra.cluster.standalone.config import ServingOptions


@pytest.mark.parametrize("address", ["localhost", ""])
def test_a_node_listens_at_an_address(address: str) -> None:
    with pytest.raises(InvalidOption, match="--address must be an IP address"):
        ServingOptions(address=address)


@pytest.mark.parametrize("address", ["localhost", "0.0.0.0", "::"])
def test_a_node_is_reached_under_one_address(address: str) -> None:
    with pytest.raises(InvalidOption, match="--node-ip must be an IP address under which the node is reached"):
        ServingOptions(node_ip=address)


def test_a_nodes_address_is_the_one_given_else_where_it_listens_else_the_machines() -> None:
    assert ServingOptions(address="0.0.0.0", node_ip="192.0.2.7").internal_ip == "192.0.2.7"
    assert ServingOptions(address="192.0.2.8").internal_ip == "192.0.2.8"
    assert ServingOptions(address="0.0.0.0").internal_ip == own_address()


def test_a_nodes_port_is_one() -> None:
    with pytest.raises(InvalidOption, match="--port must be between 0 and 65535"):
        ServingOptions(port=70_000)
    assert ServingOptions(address="::1", port=10250).port == 10250
