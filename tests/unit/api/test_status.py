"""Failures of API calls as exceptions."""

from __future__ import annotations

import pickle

from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, not_found


def test_a_failure_passes_between_processes() -> None:
    error = not_found(GroupResource("", "pods"), "one")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, StatusError)
    assert (copy.status, str(copy)) == (error.status, str(error))
