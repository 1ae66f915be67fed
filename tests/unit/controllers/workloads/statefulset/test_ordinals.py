"""The numbers of a stateful set's pods."""

from __future__ import annotations

import pytest

from cathedra.api.core.apps_v1 import StatefulSet, StatefulSetOrdinals, StatefulSetSpec
from cathedra.controllers.workloads.statefulset.ordinals import is_member, is_wanted, ordinal_of, ordinals_of
from tests.unit.controllers.workloads.objects import meta
from tests.unit.scheduler.objects import pod


def made(replicas: int | None = 3, start: int = 0) -> StatefulSet:
    return StatefulSet(
        metadata=meta("w-a"), spec=StatefulSetSpec(replicas=replicas, ordinals=StatefulSetOrdinals(start=start))
    )


@pytest.mark.parametrize(
    ("name", "member", "ordinal"),
    [
        ("w-a-0", True, 0),
        ("w-a-12", True, 12),
        ("w-a-2147483647", True, 2147483647),
        ("w-a-2147483648", True, None),
        ("w-a-99999999999999", True, None),
        ("w-a", False, None),
        ("w-a-x", False, None),
        ("w-0", False, None),
        ("w-a-0-0", False, None),
    ],
)
def test_a_pod_is_a_member_by_its_name(name: str, member: bool, ordinal: int | None) -> None:
    assert (is_member(made(), pod(name)), ordinal_of(made(), pod(name))) == (member, ordinal)


def test_ordinals_begin_where_the_set_says() -> None:
    assert list(ordinals_of(made(2, start=5))) == [5, 6]
    assert list(ordinals_of(made(None))) == [0]
    assert is_wanted(made(2, start=5), 6)
    assert not is_wanted(made(2, start=5), 4)
