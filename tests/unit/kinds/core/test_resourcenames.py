"""Names and amounts of resources."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity
from cathedra.kinds.core.resourcenames import (
    check_amount,
    container_resource_problems,
    is_native,
    is_overcommittable,
    quota_resource_problems,
    resource_name_problems,
)


@pytest.mark.parametrize(
    ("name", "native", "overcommittable"),
    [
        ("cpu", True, True),
        ("hugepages-2Mi", True, False),
        ("kubernetes.io/x", True, True),
        ("deviceclass.resource.kubernetes.io/gpu", True, True),
        ("example.com/gpu", False, False),
    ],
)
def test_only_own_resources_but_huge_pages_are_overcommitted(name: str, native: bool, overcommittable: bool) -> None:
    assert (is_native(name), is_overcommittable(name)) == (native, overcommittable)


@pytest.mark.parametrize(
    ("name", "anywhere", "in_containers", "in_quotas"),
    [
        ("cpu", True, True, True),
        ("hugepages-2Mi", True, True, True),
        ("requests.hugepages-2Mi", True, False, True),
        ("storage", True, False, False),
        ("pods", True, False, True),
        ("requests.storage", True, False, True),
        ("gpu", False, False, False),
        ("example.com/gpu", True, True, True),
        ("count/jobs.batch", True, True, True),
        ("a b", False, False, False),
    ],
)
def test_a_name_without_a_domain_is_one_of_the_known(
    name: str, anywhere: bool, in_containers: bool, in_quotas: bool
) -> None:
    assert (not resource_name_problems(name)) is anywhere
    assert (not container_resource_problems(name)) is in_containers
    assert (not quota_resource_problems(name)) is in_quotas


@pytest.mark.parametrize(
    ("name", "amount", "wanted"),
    [
        ("cpu", "500m", []),
        ("cpu", "-1", ['x: Invalid value: "-1": must be greater than or equal to 0']),
        ("pods", "500m", ['x: Invalid value: "500m": must be an integer']),
        ("example.com/gpu", "1500m", ['x: Invalid value: "1500m": must be an integer']),
    ],
)
def test_what_is_counted_has_no_fractions(name: str, amount: str, wanted: list[str]) -> None:
    errors = ErrorList()
    check_amount(errors, FieldPath("x"), name, Quantity(amount))
    assert [str(error) for error in errors] == wanted
