"""Parts in processes of their own: what they are told."""

from __future__ import annotations

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.standalone import ServingOptions


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "localhost", ""])
def test_a_node_is_reached_under_one_address(address: str) -> None:
    with pytest.raises(InvalidOption, match="--address must be an IP address"):
        ServingOptions(address=address)


def test_a_nodes_port_is_one() -> None:
    with pytest.raises(InvalidOption, match="--port must be between 0 and 65535"):
        ServingOptions(port=70_000)
    assert ServingOptions(address="::1", port=10250).port == 10250
