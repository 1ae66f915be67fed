"""Questions about pools, and their answers."""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha3
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row


def test_a_question_about_pools_counts_once_it_is_answered() -> None:
    kind = resource_v1alpha3.ResourcePoolStatusRequest
    asked = {"metadata": {"name": "x"}, "spec": {"driver": "d"}}
    assert row("resourcepoolstatusrequests", from_dict(kind, asked))["Total"] == "-"
    answered = {**asked, "status": {"poolCount": 1, "pools": [{"driver": "d", "poolName": "p", "totalDevices": 3}]}}
    found = row("resourcepoolstatusrequests", from_dict(kind, answered))
    assert (found["Total"], found["Pools"], found["Status"]) == ("3", 1, "Pending")
