"""ReplicationControllers: defaults and rows."""

from __future__ import annotations

from cathedra.api.core.core_v1 import ReplicationController
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import defaulted, row

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_controller_of_one_selects_its_templates_labels() -> None:
    made = defaulted("replicationcontrollers", from_dict(ReplicationController, {"spec": {"template": TEMPLATE}}))
    assert (made.spec.replicas, made.spec.selector, made.metadata.labels) == (1, {"a": "b"}, {"a": "b"})
    found = row("replicationcontrollers", made)
    assert (found["Desired"], found["Current"], found["Ready"]) == (1, 0, 0)
    assert (found["Containers"], found["Images"], found["Selector"]) == ("c", "i", "a=b")
