"""The test driver: parameters become variables."""

from __future__ import annotations

from cathedra.drivers.example.e2e import E2EProfile
from tests.running import run_with
from tests.unit.driver.world import World, in_virtual_time, opaque
from tests.unit.drivers.example.bench import Bench

NAME = "test.example.com"


@run_with(in_virtual_time)
async def test_parameters_of_claim_and_class_become_variables_and_later_ones_win(world: World) -> None:
    bench = Bench(world, E2EProfile(2))
    config = [
        opaque({"x": "y"}, driver=NAME, source="FromClass"),
        opaque({"a": "first"}, driver=NAME),
        opaque({"a": "b"}, driver=NAME, requests=["one"]),
        opaque({"a": "other"}, driver="other.example.com"),
    ]
    variables = await bench.variables(bench.share("device-01"), config=config)
    told = {name: value for name, value in variables.items() if name.startswith(("user_", "admin_", "claim_"))}
    assert told == {"admin_x": "y", "user_a": "b", "claim_c_one": "true"}
