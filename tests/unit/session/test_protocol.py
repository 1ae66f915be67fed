"""The window of numbered objects: both ends agree on the object of a number, and on how long it is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.session import protocol
from cathedra.session.protocol import ReceiveWindow, SendWindow


class Thing:
    pass


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), max_size=60))
def test_a_number_means_the_same_object_at_both_ends(sends: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "WINDOW", 4)
        things = [Thing() for _ in range(10)]
        sent, received = SendWindow(), ReceiveWindow()
        for which, form in sends:
            thing = things[which]
            number = sent.number_of(thing, form)
            if number:
                assert received.find(number) == (thing, form)
            else:
                sent.add(thing, form)
                received.add((thing, form))


def test_only_the_last_objects_are_kept() -> None:
    sent, received = SendWindow(), ReceiveWindow()
    things: list[Any] = [Thing() for _ in range(protocol.WINDOW + 1)]
    for thing in things:
        sent.add(thing, 0)
        received.add(thing)
    assert sent.number_of(things[0], 0) == 0
    assert sent.number_of(things[1], 0) == 2
    assert received.find(2) is things[1]
    with pytest.raises(IndexError):
        received.find(1)


def test_another_form_is_another_object() -> None:
    sent, thing = SendWindow(), Thing()
    sent.add(thing, 0)
    assert sent.number_of(thing, 1) == 0
