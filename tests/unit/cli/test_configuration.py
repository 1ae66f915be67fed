"""From options to configuration."""

from __future__ import annotations

import argparse

import pytest

from cathedra.cli.configuration import reserved_resources
from cathedra.cluster.config import InvalidOption


def reserved(kube: str = "", system: str = "") -> dict[str, str]:
    return reserved_resources(argparse.Namespace(kube_reserved=kube, system_reserved=system))


def test_what_is_reserved_for_both_adds_up() -> None:
    assert reserved() == {}
    assert reserved("cpu=200m,memory=1Gi", "cpu=0.3, pid=100") == {"cpu": "500m", "memory": "1Gi", "pid": "100"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cpu", "'cpu' is not of the form NAME=VALUE"),
        ("gpu=1", "cannot reserve 'gpu' resource; there are cpu, memory, ephemeral-storage, pid"),
        ("cpu=x", "'x' is no quantity of cpu"),
        ("memory=-1Gi", "resource quantity for 'memory' cannot be negative: -1Gi"),
    ],
)
def test_what_cannot_be_reserved_is_told(text: str, complaint: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        reserved(system=text)
    assert str(raised.value).startswith("--system-reserved")
    assert complaint in str(raised.value)
