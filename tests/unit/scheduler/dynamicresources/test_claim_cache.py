"""Claims as the scheduler knows them: the informer's, or its own newer ones."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import OwnerReference
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.scheduler.dynamicresources.claim_cache import ClaimCache
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import claim


def labelled(old: ResourceClaim, value: str) -> ResourceClaim:
    return replace(old, metadata=replace(old.metadata, labels={"step": value}))


def label_of(known: ResourceClaim | None) -> str:
    return known.metadata.labels.get("step", "") if known is not None else "gone"


def test_an_answer_wins_until_the_informer_has_caught_up() -> None:
    async def body(api: API) -> None:
        claims = api.client.resource(RESOURCECLAIMS, "default")
        cache = ClaimCache(api.informers.of(RESOURCECLAIMS))
        told: list[tuple[str, str]] = []
        cache.listen(lambda old, new: told.append((label_of(old), label_of(new))))
        api.follow()
        first = await claims.create(claim("c"))
        await api.until(lambda: cache.get("default", "c"))
        second = await claims.update(labelled(first, "second"))
        cache.assume(second)
        assert label_of(cache.get("default", "c")) == "second"
        third = await claims.update(labelled(second, "third"))
        await api.until(lambda: label_of(cache.get("default", "c")) == "third")
        cache.assume(second)
        assert label_of(cache.get("default", "c")) == "third", "an older answer changes nothing"
        assert told == [("gone", ""), ("", "second"), ("second", "third")], "each version is told once"
        await claims.delete("c", uid=third.metadata.uid)
        await api.until(lambda: cache.get("default", "c") is None)
        assert told[-1] == ("third", "gone")

    with_api(body)


def test_a_waiter_is_woken_by_the_change_and_not_before() -> None:
    async def body(api: API) -> None:
        claims = api.client.resource(RESOURCECLAIMS, "default")
        cache = ClaimCache(api.informers.of(RESOURCECLAIMS))
        cache.listen(lambda old, new: None)
        api.follow()
        await claims.create(claim("c"))
        await api.until(lambda: cache.get("default", "c"))
        began = api.clock.monotonic()
        await cache.wait_changed("default", "c", 5.0)
        assert api.clock.monotonic() - began == 5.0, "nothing has changed"
        found = cache.get("default", "c")
        assert found is not None
        await claims.update(labelled(found, "new"))
        await cache.wait_changed("default", "c", 60.0)
        assert api.clock.monotonic() - began < 10.0
        assert label_of(cache.get("default", "c")) == "new"

    with_api(body)


def test_claims_are_found_by_their_owner_in_the_newest_version() -> None:
    async def body(api: API) -> None:
        claims = api.client.resource(RESOURCECLAIMS, "default")
        cache = ClaimCache(api.informers.of(RESOURCECLAIMS))
        api.follow()
        owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid="uid-p")
        made = claim("c")
        created = await claims.create(replace(made, metadata=replace(made.metadata, owner_references=(owner,))))
        await api.until(lambda: cache.owned_by("uid-p"))
        cache.assume(await claims.update(labelled(created, "new")))
        assert [label_of(one) for one in cache.owned_by("uid-p")] == ["new"]
        assert cache.owned_by("other") == []

    with_api(body)


def test_a_second_listener_hears_first_of_what_is_there() -> None:
    async def body(api: API) -> None:
        cache = ClaimCache(api.informers.of(RESOURCECLAIMS))
        cache.listen(lambda old, new: None)
        api.follow()
        await api.client.resource(RESOURCECLAIMS, "default").create(claim("c"))
        await api.until(lambda: cache.get("default", "c"))
        told: list[str] = []
        cache.listen(lambda old, new: told.append(new.metadata.name if new is not None else "gone"))
        assert told == ["c"]

    with_api(body)
