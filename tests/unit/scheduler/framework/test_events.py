"""Changes, and the plugins that register for them."""

from __future__ import annotations

import pytest

from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource

LABELS = EventRegistration(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)


@pytest.mark.parametrize(
    ("resource", "actions", "expected"),
    [
        (EventResource.NODE, Action.ADD, True),
        (EventResource.NODE, Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT, True),
        (EventResource.NODE, Action.UPDATE_NODE_TAINT, False),
        (EventResource.NODE, Action(0), False),
        (EventResource.ASSIGNED_POD, Action.ADD, False),
    ],
)
def test_one_common_action_of_the_same_resource_is_enough(
    resource: EventResource, actions: Action, expected: bool
) -> None:
    assert LABELS.matches(ClusterEvent(resource, actions)) is expected
