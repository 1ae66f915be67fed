"""ControllerRevisions: rows."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import ControllerRevision
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row


def test_a_revision_names_its_controller_by_kind_and_group() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
    found = row(
        "controllerrevisions", from_dict(ControllerRevision, {"metadata": {"ownerReferences": [owner]}, "revision": 3})
    )
    assert (found["Controller"], found["Revision"]) == ("daemonset.apps/d", 3)
    assert row("controllerrevisions", from_dict(ControllerRevision, {}))["Controller"] == "<none>"
