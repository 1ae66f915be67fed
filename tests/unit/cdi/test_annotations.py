"""Annotations that name CDI devices."""

from __future__ import annotations

import pytest

from cathedra.cdi.annotations import annotation, devices_of
from cathedra.cdi.errors import InvalidName


def test_devices_go_into_an_annotation_and_come_out_once() -> None:
    one = annotation("plugin", "a/b", ["x.com/gpu=1", "x.com/gpu=2"])
    assert one == ("cdi.k8s.io/plugin_a_b", "x.com/gpu=1,x.com/gpu=2")
    two = annotation("aplugin", "c", ["x.com/gpu=2", "x.com/gpu=3"])
    assert devices_of(dict([one, two, ("other", "x")])) == ("x.com/gpu=2", "x.com/gpu=3", "x.com/gpu=1")


def test_names_that_break_a_rule_are_refused() -> None:
    with pytest.raises(InvalidName, match="invalid annotation key"):
        annotation("p" * 60, "long", ["x.com/gpu=1"])
    with pytest.raises(InvalidName):
        annotation("plugin", "a", ["unqualified"])
    with pytest.raises(InvalidName):
        devices_of({"cdi.k8s.io/p_a": "unqualified"})
