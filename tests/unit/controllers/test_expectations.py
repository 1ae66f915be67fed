"""A controller waits until the informer shows what it wrote itself."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import OwnerReference
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS
from cathedra.controllers.expectations import LONGEST_WAIT, Expectations
from cathedra.controllers.finalizers import remove_finalizer
from tests.running import run_with
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import pod


@run_with(with_api)
async def test_a_write_is_waited_for_until_the_informer_shows_it(api: API) -> None:
    informer = api.informers.of(PODS)
    expectations: Expectations[str] = Expectations(informer, api.clock)
    assert expectations.met("k")
    api.follow()
    await informer.wait_synced()
    expectations.expect("k", await api.client.resource(PODS, "default").create(pod("p")))
    assert not expectations.met("k")
    assert expectations.met("other")
    await api.until(lambda: expectations.met("k"), seconds=5)


@run_with(with_api)
async def test_an_object_that_goes_with_its_last_finalizer_is_waited_for_until_it_is_gone(api: API) -> None:
    """The API server answers such a write with the version that the object had before."""
    informer = api.informers.of(PODS)
    expectations: Expectations[str] = Expectations(informer, api.clock)
    api.follow()
    pods = api.client.resource(PODS, "default")
    await pods.create(with_metadata(pod("p"), finalizers=("a.b/c",)))
    deleted = await pods.delete("p")
    assert deleted is not None
    await api.until(lambda: informer.has_reached(deleted.metadata.resource_version), seconds=5)
    expectations.expect("k", await remove_finalizer(pods, deleted, "a.b/c"))
    assert informer.store.get("default", "p") is not None
    assert not expectations.met("k")
    await api.until(lambda: expectations.met("k"), seconds=5)
    assert informer.store.get("default", "p") is None


async def synced(api: API) -> Expectations[str]:
    """Return expectations whose informer has read its list."""
    informer = api.informers.of(PODS)
    expectations: Expectations[str] = Expectations(informer, api.clock)
    api.follow()
    await informer.wait_synced()
    return expectations


@run_with(with_api)
async def test_a_write_that_never_shows_up_is_given_up_after_five_minutes(api: API) -> None:
    expectations = await synced(api)
    expectations.expect("k", with_metadata(pod("p"), resource_version="999999"))
    await api.clock.sleep(LONGEST_WAIT - 1)
    assert not expectations.met("k")
    await api.clock.sleep(2)
    assert expectations.met("k")


@run_with(with_api)
async def test_an_older_write_does_not_replace_a_newer_one(api: API) -> None:
    expectations = await synced(api)
    expectations.expect("k", with_metadata(pod("p"), resource_version="999999"))
    expectations.expect("k", with_metadata(pod("p"), resource_version="1"))
    assert not expectations.met("k")
    expectations.forget("k")
    assert expectations.met("k")


@run_with(with_api)
async def test_after_a_lost_answer_what_the_owner_controls_is_waited_for(api: API) -> None:
    informer, expectations = api.informers.of(PODS), await synced(api)
    pods = api.client.resource(PODS, "default")
    owner = await pods.create(pod("owner"))
    uid = owner.metadata.uid
    await api.until(lambda: informer.store.get("default", "owner"))
    reference = OwnerReference(api_version="v1", kind="Pod", name="owner", uid=uid, controller=True)
    await pods.create(with_metadata(pod("p"), owner_references=(reference,)))
    expectations.doubt(uid)
    await expectations.find_out(uid, api.client, owner)
    assert not expectations.met(uid)
    await api.until(lambda: expectations.met(uid), seconds=5)
    assert informer.store.get("default", "p") is not None
