"""Users: the pods that they create."""

from __future__ import annotations

import asyncio
from typing import Any

from cathedra.clock import LoopClock, run_virtual
from cathedra.faultsim.plan import PlannedStep, Setup
from cathedra.faultsim.users import SECOND_SCHEDULER, Users, pod_body
from cathedra.node.runtime.simulated import RUN_SECONDS


def test_a_pod_has_one_claim_and_the_time_of_its_container() -> None:
    body = pod_body("p", {"resourceClaimName": "c"}, 5.0, schedulerName="other")
    assert body["metadata"] == {"name": "p", "annotations": {RUN_SECONDS: "5.000"}}
    assert body["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "c"}]
    assert body["spec"]["schedulerName"] == "other"


def test_of_two_named_schedulers_each_gets_some_of_the_pods() -> None:
    class Created:
        def __init__(self) -> None:
            self.names: dict[str, str] = {}

        def resource(self, *_: Any) -> Any:
            return self

        async def create(self, pod: Any) -> None:
            self.names[pod.metadata.name] = pod.spec.scheduler_name

    async def main() -> dict[str, str]:
        client: Any = Created()
        users = Users(client, LoopClock(asyncio.get_running_loop()), Setup(release="x", named=True))
        for number in range(4):
            await users.carry_out(PlannedStep(at=0.0, do="pod", on=f"pod-{number}", count=1))
        return client.names  # type: ignore[no-any-return]

    assert sorted(set(run_virtual(main()).values())) == ["", SECOND_SCHEDULER]
