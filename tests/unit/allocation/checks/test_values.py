"""Values as constraints compare them."""

from __future__ import annotations

from cathedra.allocation import Features
from cathedra.allocation.checks.values import scalar_or_set
from cathedra.api.resource import DeviceAttribute
from cathedra.api.struct import from_dict


def test_values_compare_by_type_and_versions_by_precedence() -> None:
    def value(lists: bool = False, distinct: bool = False, **of: object) -> object:
        return scalar_or_set(from_dict(DeviceAttribute, of), Features(list_type_attributes=lists), distinct=distinct)

    assert value(int=1) != value(string="1") != value(bool=True)
    assert value(version="1.0.0+a") == value(version="1.0.0+b")
    assert value(version="1.0.0+a", distinct=True) != value(version="1.0.0+b", distinct=True)
    assert value(version="1.0.0+a", lists=True) != value(version="1.0.0+b", lists=True)
    assert value(ints=[1]) is None
    assert value(ints=[2], lists=True) == value(int=2, lists=True)
    assert value() is None
