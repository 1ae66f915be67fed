"""Recognition of the claim that was made for a pod from a template."""

from __future__ import annotations

import pytest

from cathedra.classic.resources import CLAIMS
from cathedra.client.resources import PODS
from cathedra.client.transport import PatchType
from tests.unit.classic.world import World, play, pod, resource_class, template


@pytest.mark.parametrize("release", ["1.28", "1.30"])
def test_a_recorded_claim_that_the_pod_owns_no_longer_is_replaced_by_a_new_one(release: str) -> None:
    async def story(world: World) -> None:
        await world.create(resource_class(), template(), pod(cat="t:t"))
        first = (await world.until(PODS, "p", lambda obj: bool(obj.status.resource_claim_statuses))).status
        name = first.resource_claim_statuses[0].resource_claim_name
        await world.of(CLAIMS).patch(name, PatchType.MERGE, {"metadata": {"ownerReferences": None}})
        second = await world.until(
            PODS, "p", lambda obj: obj.status.resource_claim_statuses[0].resource_claim_name != name
        )
        made = await world.of(CLAIMS).get(second.status.resource_claim_statuses[0].resource_claim_name)
        assert [owner.name for owner in made.metadata.owner_references] == ["p"]

    play(release, story)
