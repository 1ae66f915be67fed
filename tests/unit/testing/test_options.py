"""Options of a cluster in a test."""

from __future__ import annotations

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.testing import ClusterOptions


def test_what_is_not_given_has_its_default() -> None:
    assert ClusterOptions.of({"nodes": 3}) == ClusterOptions(nodes=3)


def test_a_name_that_is_no_option_is_told_with_those_that_are() -> None:
    with pytest.raises(InvalidOption, match="dra_cluster has no option 'node'; it has nodes, profile, gpus"):
        ClusterOptions.of({"node": 3})
