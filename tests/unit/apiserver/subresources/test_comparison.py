"""Which writes a store compares."""

from __future__ import annotations

import pytest

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.subresources.comparison import is_compared

PODS = GroupResource("", "pods")


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
def test_writes_of_one_object_are(verb: str) -> None:
    assert is_compared(verb, PODS)
    assert is_compared(verb, PODS, "status")
    assert is_compared(verb, PODS, "binding")


def test_writes_by_what_else_is_there_are_not() -> None:
    assert not is_compared("deletecollection", PODS)
    assert not is_compared("create", PODS, "eviction")
    assert not is_compared("create", GroupResource("", "serviceaccounts"), "token")
    assert not is_compared("create", GroupResource("authorization.k8s.io", "subjectaccessreviews"))
