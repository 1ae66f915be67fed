"""The claim of an entry is found or made, never twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.client.resources import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.controllers.resourceclaim.maker import ClaimMaker, TemplateMissing, generate_name
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.controllers.resourceclaim.objects import template
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import pod


def maker(api: API) -> ClaimMaker:
    return ClaimMaker(api.client, api.informers, api.clock, FeatureGates.for_release())


async def owner(api: API) -> Pod:
    return await api.client.resource(PODS, "default").create(pod("p"))


@run_with(with_api)
async def test_a_missing_template_is_named(api: API) -> None:
    made = maker(api)
    api.follow()
    with pytest.raises(TemplateMissing, match='resource claim template "tpl": '):
        await made.make(await owner(api), "gpu", "tpl")


@run_with(with_api)
async def test_a_claim_is_known_before_the_informer_shows_it(api: API) -> None:
    made = maker(api)
    templates = api.informers.of(RESOURCECLAIMTEMPLATES)
    api.follow()
    await api.client.resource(RESOURCECLAIMTEMPLATES, "default").create(template())
    await api.until(lambda: templates.store.get("default", "tpl"))
    user = await owner(api)
    assert made.find(user, "gpu") is None
    created = await made.make(user, "gpu", "tpl")
    assert made.created == {("success", "false"): 1}
    found = made.find(user, "gpu")
    assert found is not None
    assert found.metadata.uid == created.metadata.uid
    assert made.get("default", created.metadata.name) is not None
    await api.until(lambda: api.informers.of(RESOURCECLAIMS).store.get("default", created.metadata.name))
    again = made.find(user, "gpu")
    assert again is not None
    assert again.metadata.uid == created.metadata.uid
    assert made.find(user, "other") is None


@given(st.text("abc", min_size=1, max_size=80), st.text("xyz", min_size=1, max_size=63))
def test_generated_names_leave_room_for_five_characters(owner: str, entry: str) -> None:
    prefix = generate_name(owner, entry)
    assert len(prefix) <= 57 + 1
    assert len(prefix) + 5 <= 63
    if len(owner) + len(entry) + 2 <= 57:
        assert prefix == f"{owner}-{entry}-"


def test_long_names_are_cut_in_proportion() -> None:
    assert generate_name("p" * 60, "g") == "p" * 54 + "-"
