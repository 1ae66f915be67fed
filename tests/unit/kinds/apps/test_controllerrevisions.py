"""ControllerRevisions: rows."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import ControllerRevision
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import problems_of, problems_of_change, row


def test_a_revision_names_its_controller_by_kind_and_group() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
    found = row(
        "controllerrevisions", from_dict(ControllerRevision, {"metadata": {"ownerReferences": [owner]}, "revision": 3})
    )
    assert (found["Controller"], found["Revision"]) == ("daemonset.apps/d", 3)
    assert row("controllerrevisions", from_dict(ControllerRevision, {}))["Controller"] == "<none>"


def test_the_data_of_a_revision_are_given_and_never_change() -> None:
    assert problems_of("controllerrevisions", ControllerRevision, {"revision": -1}) == [
        "data: Required value: data is mandatory",
        "revision: Invalid value: -1: must be greater than or equal to 0",
    ]
    first, other = {"data": {"a": 1}}, {"data": {"a": 2}}
    assert problems_of_change("controllerrevisions", ControllerRevision, first, other) == [
        'data: Invalid value: {"a":2}: field is immutable'
    ]
