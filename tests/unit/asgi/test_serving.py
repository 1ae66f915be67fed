"""What connections of a listener share."""

from __future__ import annotations

import asyncio
from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from cathedra.asgi.serving import OpenConnections, http_date


@given(st.floats(0, 4e9))
def test_dates_are_those_of_the_standard_library(now: float) -> None:
    assert http_date(now).decode() == formatdate(now, usegmt=True)


async def test_connections_can_be_waited_for_until_there_are_none() -> None:
    connections = OpenConnections()
    await connections.wait_none()
    first, second = object(), object()
    connections.add(first)
    connections.add(second)
    waiting = asyncio.create_task(connections.wait_none())
    connections.remove(first)
    await asyncio.sleep(0)
    assert (second in connections, len(connections), waiting.done()) == (True, 1, False)
    connections.discard(second)
    await waiting


def test_connections_may_go_while_they_are_looked_at() -> None:
    connections = OpenConnections()
    for connection in ("a", "b"):
        connections.add(connection)
    for connection in connections:
        connections.discard(connection)
    assert len(connections) == 0
