"""Claims as the scheduler knows them: the informer's, or its own newer ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import OwnerReference
from cathedra.api.resource import ResourceClaim, ResourceClaimConsumerReference
from cathedra.api.struct import Time, replace
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.scheduler.dynamicresources.claims import ClaimCache, Resolver, UnresolvedClaim
from tests.running import run_with
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import claim, pod


def labelled(old: ResourceClaim, value: str) -> ResourceClaim:
    return replace(old, metadata=replace(old.metadata, labels={"step": value}))


def label_of(known: ResourceClaim | None) -> str:
    return known.metadata.labels.get("step", "") if known is not None else "gone"


@run_with(with_api)
async def test_an_answer_wins_until_the_informer_has_caught_up(api: API) -> None:
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


@run_with(with_api)
async def test_a_waiter_is_woken_by_the_change_and_not_before(api: API) -> None:
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


@run_with(with_api)
async def test_claims_are_found_by_their_owner_in_the_newest_version(api: API) -> None:
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


NAMED = [{"name": "gpu", "resourceClaimName": "c"}]
GENERATED: dict[str, Any] = {
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]},
}


def resolver(*claims: ResourceClaim) -> Resolver:
    known = {
        one.metadata.name: replace(one, metadata=replace(one.metadata, uid=f"uid-{one.metadata.name}"))
        for one in claims
    }
    return Resolver(lambda _, name: known.get(name), None)


def owned(name: str, uid: str) -> ResourceClaim:
    made = claim(name)
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid=uid, controller=True)
    return replace(made, metadata=replace(made.metadata, owner_references=(owner,)))


def test_claims_come_in_the_order_of_the_spec() -> None:
    entries = [{"name": name, "resourceClaimName": name} for name in ("b", "a")]
    found = resolver(claim("a"), claim("b")).claims(pod("p", resourceClaims=entries))
    assert [one.metadata.name for one in found] == ["b", "a"]


def test_a_claim_that_is_not_there_is_named() -> None:
    with pytest.raises(UnresolvedClaim, match='could not find ResourceClaim "default/c"'):
        resolver().claims(pod("p", resourceClaims=NAMED))


def test_a_claim_that_is_being_deleted_is_no_use() -> None:
    going = claim("c")
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=Time(1)))
    with pytest.raises(UnresolvedClaim, match='resourceclaim "c" is being deleted'):
        resolver(going).claims(pod("p", resourceClaims=NAMED))


def test_a_generated_claim_is_used_only_by_its_owner() -> None:
    user = pod("p", **GENERATED)
    assert len(resolver(owned("p-gpu-x", "uid-p")).claims(user)) == 1
    with pytest.raises(UnresolvedClaim):
        resolver(owned("p-gpu-x", "uid-of-another")).claims(user)


def test_a_template_without_its_claim_yet_is_unresolved() -> None:
    entries = GENERATED["resourceClaims"]
    with pytest.raises(UnresolvedClaim):
        resolver().claims(pod("p", resourceClaims=entries))


def test_an_entry_that_needed_no_claim_is_left_out() -> None:
    entries = [*GENERATED["resourceClaims"], *NAMED]
    nothing = {"resourceClaimStatuses": [{"name": "gpu"}]}
    user = pod("p", resourceClaims=[entries[0], {**entries[1], "name": "other"}], status=nothing)
    assert [one.metadata.name for one in resolver(claim("c")).claims(user)] == ["c"]


def test_a_pod_is_entered_as_consumer_by_its_uid() -> None:
    user = pod("p", resourceClaims=NAMED)
    consumer = resolver().consumer(user, claim("c"))
    assert consumer == ResourceClaimConsumerReference(resource="pods", name="p", uid="uid-p")
    reserved = claim("c")
    reserved = replace(reserved, status=replace(reserved.status, reserved_for=(consumer,)))
    assert resolver().is_reserved(user, reserved)
    assert not resolver().is_reserved(user, claim("c"))


ENTRIES = st.lists(
    st.sampled_from(
        [
            {"name": "gpu", "resourceClaimTemplateName": "t"},
            {"name": "nic", "resourceClaimTemplateName": "t"},
            {"name": "old", "source": {"resourceClaimTemplateName": "t"}},
            {"name": "named", "resourceClaimName": "c"},
            {"name": "both", "resourceClaimName": "c", "resourceClaimTemplateName": "t"},
            {"name": "unset"},
        ]
    ),
    max_size=3,
    unique_by=lambda entry: entry["name"],
)
STATUSES = st.lists(st.sampled_from(["gpu", "nic"]), max_size=2, unique=True)


@given(ENTRIES, STATUSES)
def test_a_pod_that_is_known_to_lack_a_claim_is_not_resolved(entries: list[dict[str, Any]], made: list[str]) -> None:
    statuses = [{"name": name, "resourceClaimName": f"p-{name}-x"} for name in made]
    user = pod("p", resourceClaims=entries, status={"resourceClaimStatuses": statuses})
    known = resolver(claim("c"), *[owned(f"p-{name}-x", "uid-p") for name in made])
    if known.lacks_claims(user):
        with pytest.raises(UnresolvedClaim):
            known.claims(user)
    if entries == [{"name": "gpu", "resourceClaimTemplateName": "t"}]:
        assert known.lacks_claims(user) is (not made)


@given(st.lists(st.tuples(st.sampled_from(["p-gpu-x", "c"]), st.sampled_from(["made", "going", "gone", "same"]))))
def test_a_pod_that_is_asked_about_again_gets_its_claims_as_they_are_now(changes: list[tuple[str, str]]) -> None:
    known: dict[str, ResourceClaim] = {}
    asked = Resolver(lambda _, name: known.get(name), None)
    entries = [*GENERATED["resourceClaims"], {"name": "other", "resourceClaimName": "c"}]
    users = [pod("p", resourceClaims=entries, status=GENERATED["status"]), pod("q", resourceClaims=entries[1:])]
    for name, change in changes:
        if change == "gone":
            known.pop(name, None)
        elif change != "same":
            made = owned(name, "uid-p")
            going = Time(1) if change == "going" else None
            known[name] = replace(made, metadata=replace(made.metadata, deletion_timestamp=going))
        for user in (users[0], users[0], users[1], users[1]):
            found = _told(asked, user)
            assert found == _told(Resolver(lambda _, name: known.get(name), None), user)
            if isinstance(found, list):
                found.clear()


def _told(asked: Resolver, user: Pod) -> list[ResourceClaim] | str:
    try:
        return asked.claims(user)
    except UnresolvedClaim as why:
        return str(why)


def test_a_claim_that_is_there_and_cannot_be_decoded_is_named_as_such() -> None:
    asked = Resolver(lambda *_: None, None, lambda namespace, name: f"ResourceClaim {namespace}/{name} is odd")
    with pytest.raises(UnresolvedClaim, match=r"^ResourceClaim default/c is odd$"):
        asked.claims(pod("p", resourceClaims=NAMED))
