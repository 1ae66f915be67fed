"""Claims about which the allocator has not come to a decision in its time."""

from __future__ import annotations

from cathedra.allocation import Budget
from cathedra.clock import SystemClock
from cathedra.insight.explanation.explain import explain
from cathedra.insight.reading.dumps import read_dump
from tests.insight.building import claim, device, device_class, node, request, slice_of

CUBE = str(list(range(18)))
SLOW = f'{CUBE}.all(a, {CUBE}.all(b, {CUBE}.all(c, a + b + c >= 0 || device.driver == "x")))'


def test_a_search_that_was_stopped_is_told_with_what_it_was_for() -> None:
    expression = f'({SLOW}) && device.attributes["gpu.example.com"].number >= 0'
    asked = claim("c", request("r", "gpu", 2, expression), constraints=[{"matchAttribute": "gpu.example.com/number"}])
    devices = [device(f"d{number}", number=number) for number in range(100)]
    state = read_dump([node(), device_class(), slice_of(*devices), asked])
    state.cluster.budget = Budget(seconds=0.2, monotonic=SystemClock.monotonic)
    (cause,) = [one for one in explain(state, "claim/c").causes if one.kind == "time"]
    assert cause.text == (
        "timed out trying to allocate devices: the search was stopped in 0.2 s before all selectors were evaluated: "
        "1 request with matchAttribute gpu.example.com/number"
    )
