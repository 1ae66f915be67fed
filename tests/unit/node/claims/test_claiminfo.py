"""What the node knows of claims."""

from __future__ import annotations

import pytest

from cathedra.node.claims.claiminfo import ClaimInfo, ClaimInfoCache, DriverState
from cathedra.node.plugins.client import ClaimReference, PluginDevice


def info(name: str, *pods: str, device: str = "") -> ClaimInfo:
    devices = (PluginDevice("pool", device, ("r",), ()),) if device else ()
    return ClaimInfo("ns", name, f"uid-{name}", set(pods), {"d": DriverState(devices)})


def test_claims_are_known_by_name_and_found_by_pod() -> None:
    cache = ClaimInfoCache()
    one, two = info("one", "p", "q"), info("two", "q")
    cache.add(one)
    cache.add(two)
    assert cache.get("ns", "one") is one
    assert cache.get("other", "one") is None
    assert cache.of_pod("q") == [one, two]
    assert cache.pod_uids() == {"p", "q"}
    cache.remove(one)
    assert (len(cache), list(cache)) == (1, [two])


def test_a_claim_made_again_takes_the_place_of_its_namesake() -> None:
    cache = ClaimInfoCache()
    cache.add(info("one"))
    again = ClaimInfo("ns", "one", "another-uid")
    cache.add(again)
    assert list(cache) == [again]
    assert again.reference == ClaimReference("ns", "another-uid", "one")


def test_pods_are_found_by_the_devices_that_they_use() -> None:
    cache = ClaimInfoCache()
    cache.add(info("one", "p", device="gpu-0"))
    cache.add(info("two", "q", device="gpu-1"))
    assert cache.with_device("d", [("pool", "gpu-1")]) == {"q"}
    assert cache.with_device("d", [("elsewhere", "gpu-1")]) == set()
    assert cache.with_device("other", [("pool", "gpu-1")]) == set()


@pytest.mark.parametrize(
    ("operations", "prepare", "unprepare"),
    [
        ((), False, False),
        (("NodePrepareResources",), True, False),
        (("NodeUnprepareResources",), False, True),
        (("*",), True, True),
    ],
)
def test_a_driver_may_be_spared_calls(operations: tuple[str, ...], prepare: bool, unprepare: bool) -> None:
    state = DriverState(skip=frozenset(operations))
    assert (state.skips_prepare, state.skips_unprepare) == (prepare, unprepare)
