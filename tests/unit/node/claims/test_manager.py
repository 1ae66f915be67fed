"""Preparing and unpreparing the claims of pods: the cases that a whole pod does not show (docs/spec/node.md §7
to §12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    Container,
    ContainerExtendedResourceRequest,
    Pod,
    PodExtendedResourceClaimStatus,
    ResourceRequirements,
)
from cathedra.api.core.core_v1 import (
    ResourceClaim as ContainerClaim,
)
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceAllocationResult, ResourceClaim, ResourceClaimStatus
from cathedra.api.struct import from_dict, replace
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.clock import run_virtual
from cathedra.node.claims.checkpoint import (
    ClaimError,
    ClaimInfo,
    ClaimInfoCache,
    DriverState,
    MemoryCheckpoint,
    PrepareError,
    UnprepareError,
)
from cathedra.node.claims.manager import (
    ClaimManager,
    cdi_devices,
    check_allowed,
    claim_devices,
    driver_states,
    pod_claims,
)
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ClaimReference, PluginDevice, PrepareOutcome
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry
from cathedra.releases import FeatureGates
from tests.running import beside, run_with
from tests.unit.node.fakes import DRIVER, GATES, FakeDriver, NodeTransport, make_claim, make_pod


class Odd(FakeDriver):
    """A driver whose answers the test sets."""

    answers: Mapping[str, PrepareOutcome] | None = None

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        prepared = await super().prepare(claims)
        return prepared if self.answers is None else self.answers


class FailingCheckpoint(MemoryCheckpoint):
    """A driver that refuses while the test requires it."""

    full = False

    async def save(self, infos: Iterable[ClaimInfo]) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        await super().save(infos)


class Bench:
    def __init__(self, **gates: bool) -> None:
        self.gates = FeatureGates.for_release("1.37", gates)
        self.server = NodeTransport()
        self.clock = self.server.clock()
        self.client = Client(self.server, clock=self.clock)
        self.checkpoint = FailingCheckpoint()
        self.drivers: dict[str, Odd] = {}
        self.registry = PluginRegistry()
        self.manager = self.make_manager()

    def make_manager(self) -> ClaimManager:
        return ClaimManager(
            self.client,
            self.registry,
            self.checkpoint,
            clock=self.clock,
            gates=self.gates,
            metrics=NodeMetrics(self.clock),
        )

    def driver(self, name: str = DRIVER) -> Odd:
        self.drivers[name] = driver = Odd()
        self.registry.add(PluginInstance(name, "socket", driver, connected=True))
        return driver

    async def create(self, *claims: ResourceClaim) -> None:
        for claim in claims:
            await self.client.resource(RESOURCECLAIMS, "default").create(claim)

    async def replace(self, claim: ResourceClaim, uid: str) -> None:
        """Another claim of the same name."""
        await self.client.resource(RESOURCECLAIMS, "default").delete(claim.metadata.name)
        await self.create(replace(claim, metadata=replace(claim.metadata, uid=uid)))


def play(body: Callable[[Bench], Awaitable[None]], **gates: bool) -> None:
    async def main() -> None:
        await body(Bench(**gates))

    run_virtual(main())


async def refused(bench: Bench, pod: Pod) -> str:
    with pytest.raises(PrepareError) as error:
        await bench.manager.prepare(pod)
    return str(error.value).removeprefix("prepare dynamic resources: ")


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ({}, "NodePrepareResources skipped 1 ResourceClaims"),
        ({"x": PrepareOutcome()}, "NodePrepareResources returned result for unknown claim UID x"),
        ({"uid-c1": PrepareOutcome(error="no")}, "NodePrepareResources failed for ResourceClaim c1: no"),
    ],
)
@run_with(play)
async def test_a_drivers_answer_is_checked(bench: Bench, *, answers: dict[str, PrepareOutcome], complaint: str) -> None:
    bench.driver().answers = answers
    await bench.create(make_claim("c1", "p"))
    assert await refused(bench, make_pod("p", claims=["c1"])) == complaint


@run_with(play)
async def test_no_driver_is_called_before_the_reference_is_on_disk(bench: Bench) -> None:
    """A failed write leaves nothing behind, so that the next attempt writes again (docs/spec/node.md §11)."""
    driver = bench.driver()
    await bench.create(make_claim("c1", "p"))
    bench.checkpoint.full = True
    assert "No space left on device" in await refused(bench, make_pod("p", claims=["c1"]))
    assert "No space left on device" in await refused(bench, make_pod("p", claims=["c1"]))
    assert driver.calls == []
    assert not list(bench.manager.cache)
    bench.checkpoint.full = False
    await bench.manager.prepare(make_pod("p", claims=["c1"]))
    assert driver.calls == [("prepare", ("c1",))]


@run_with(play)
async def test_a_claim_of_the_same_name_waits_until_the_old_one_is_let_go(bench: Bench) -> None:
    bench.driver()
    old = make_claim("c1", "p", "q")
    await bench.create(old)
    await bench.manager.prepare(make_pod("p", claims=["c1"]))
    await bench.replace(old, "new")
    assert await refused(bench, make_pod("q", claims=["c1"])) == (
        "old ResourceClaim with same name c1 and different UID uid-c1 still exists (previous pod force-deleted?!)"
    )
    await bench.manager.unprepare("uid-p")
    await bench.manager.prepare(make_pod("q", claims=["c1"]))


@run_with(play)
async def test_a_pod_that_fails_validation_takes_nothing_from_the_pod_it_shares_a_claim_with(bench: Bench) -> None:
    """Scenario N23: its other claim needs a driver that is not there; deleting it calls no driver."""
    driver = bench.driver()
    await bench.create(make_claim("shared", "p", "q"), make_claim("other", "q", driver="gone.example.com"))
    await bench.manager.prepare(make_pod("p", claims=["shared"]))
    complaint = await refused(bench, make_pod("q", claims=["shared", "other"]))
    assert complaint == "DRA driver gone.example.com is not registered"
    await bench.manager.unprepare("uid-q")
    assert driver.calls == [("prepare", ("shared",))]


@run_with(play)
async def test_one_failing_driver_of_two_makes_both_be_called_again(bench: Bench) -> None:
    good, bad = bench.driver("a.example.com"), bench.driver("b.example.com")
    claim = make_claim("c1", "p", driver="a.example.com")
    allocation = claim.status.allocation
    assert allocation is not None
    (first,) = allocation.devices.results
    both = (first, replace(first, driver="b.example.com"))
    allocation = replace(allocation, devices=replace(allocation.devices, results=both))
    await bench.create(replace(claim, status=replace(claim.status, allocation=allocation)))
    bad.failures = ["busy"]
    pod = make_pod("p", claims=["c1"])
    assert "busy" in await refused(bench, pod)
    await bench.manager.prepare(pod)
    assert (len(good.calls), len(bad.calls)) == (2, 2)
    names = bench.manager.cdi_devices(pod, pod.spec.containers[0])
    assert len(names) == 1, "each CDI name once, however often it was prepared"
    bad.failures = ["still busy"]
    with pytest.raises(UnprepareError):
        await bench.manager.unprepare("uid-p")
    await bench.manager.unprepare("uid-p")
    assert len(bench.manager.cache) == 0


@run_with(play)
async def test_after_a_restart_claims_are_prepared_again_and_each_device_is_there_once(bench: Bench) -> None:
    driver = bench.driver()
    await bench.create(make_claim("c1", "p", "q"))
    await bench.manager.prepare(make_pod("p", claims=["c1"]))
    bench.manager = bench.make_manager()
    bench.manager.recover()
    await bench.manager.prepare(make_pod("q", claims=["c1"]))
    assert len(driver.calls) == 2
    (info,) = bench.manager.cache
    assert info.pod_uids == {"uid-p", "uid-q"}
    assert len(info.drivers[DRIVER].devices) == 1


def skipping(claim: ResourceClaim, *operations: str) -> ResourceClaim:
    allocation = claim.status.allocation
    assert allocation is not None
    results = tuple(replace(r, skip_node_operations=operations) for r in allocation.devices.results)
    allocation = replace(allocation, devices=replace(allocation.devices, results=results))
    return replace(claim, status=replace(claim.status, allocation=allocation))


@pytest.mark.parametrize(
    ("operations", "calls"), [(("*",), []), (("NodeUnprepareResources",), ["prepare"]), ((), ["prepare", "unprepare"])]
)
@run_with(lambda test: play(test, DRAOptionalNodeOperations=True))
async def test_calls_that_all_devices_do_without_are_not_made(
    bench: Bench, *, operations: tuple[str, ...], calls: list[str]
) -> None:
    driver = bench.driver()
    await bench.create(skipping(make_claim("c1", "p"), *operations))
    await bench.manager.prepare(make_pod("p", claims=["c1"]))
    await bench.manager.unprepare("uid-p")
    assert [verb for verb, _ in driver.calls] == calls


@run_with(lambda test: play(test, DRAOptionalNodeOperations=True))
async def test_devices_that_need_no_calls_need_no_driver_either(bench: Bench) -> None:
    await bench.create(skipping(make_claim("c1", "p"), "*"))
    await bench.manager.prepare(make_pod("p", claims=["c1"]))
    await bench.manager.unprepare("uid-p")


@run_with(play)
async def test_a_node_that_cannot_skip_says_so(bench: Bench) -> None:
    bench.driver()
    await bench.create(skipping(make_claim("c1", "p"), "*"))
    complaint = await refused(bench, make_pod("p", claims=["c1"]))
    assert complaint == "DRAOptionalNodeOperations feature gate is disabled on kubelet"


@run_with(play)
async def test_a_container_gets_the_devices_of_the_request_it_names_and_those_of_no_request(bench: Bench) -> None:
    driver = bench.driver()
    await bench.create(make_claim("c1", "p"))
    devices = [("a", ("gpu",)), ("b", ("nic",)), ("c", ())]
    driver.answers = {
        "uid-c1": PrepareOutcome(
            tuple(PluginDevice("n1", name, requests, (f"x.com/d={name}",)) for name, requests in devices)
        )
    }
    pod = make_pod("p", claims=["c1"])
    await bench.manager.prepare(pod)

    def of(request: str) -> tuple[str, ...]:
        resources = ResourceRequirements(claims=(ContainerClaim(name="c1", request=request),))
        return bench.manager.cdi_devices(pod, Container(name="c", resources=resources))

    assert of("") == ("x.com/d=a", "x.com/d=b", "x.com/d=c")
    assert of("nic") == ("x.com/d=b", "x.com/d=c")
    assert bench.manager.cdi_devices(pod, Container(name="bare")) == ()
    with pytest.raises(ClaimError, match="unable to get claim info for ResourceClaim c1 in namespace default"):
        bench.make_manager().cdi_devices(pod, pod.spec.containers[0])


@run_with(play)
async def test_an_extended_resource_brings_the_devices_of_its_request(bench: Bench) -> None:
    bench.driver()
    await bench.create(make_claim("made", "p"))
    mapping = ContainerExtendedResourceRequest(container_name="c", resource_name="example.com/gpu", request_name="gpu")
    extended = PodExtendedResourceClaimStatus(request_mappings=(mapping,), resource_claim_name="made")
    pod = make_pod("p")
    pod = replace(pod, status=replace(pod.status, extended_resource_claim_status=extended))
    await bench.manager.prepare(pod)

    def of(name: str, amount: str) -> tuple[str, ...]:
        resources = ResourceRequirements(requests={"example.com/gpu": Quantity(amount)})
        return bench.manager.cdi_devices(pod, Container(name=name, resources=resources))

    assert of("c", "1") == (f"{DRIVER}/gpu=uid-made",)
    assert of("c", "0") == of("other", "1") == ()


@run_with(play)
async def test_claims_of_pods_that_are_gone_are_let_go_as_soon_as_their_driver_is_back(bench: Bench) -> None:
    bench.driver()
    await bench.create(make_claim("c1", "p"))
    await bench.manager.prepare(make_pod("p", claims=["c1"]))
    bench.registry.remove(DRIVER, "socket")
    async with beside(bench.manager.reconcile(lambda: set())):
        await asyncio.sleep(1)
        assert len(bench.manager.cache) == 1
        bench.driver()
        bench.manager.look_again()
        await asyncio.sleep(1)
        assert len(bench.manager.cache) == 0


@run_with(play)
async def test_claims_of_pods_that_are_gone_are_let_go_by_and_by(bench: Bench) -> None:
    driver: Any = bench.driver()
    await bench.create(make_claim("c1", "p"))
    await bench.manager.prepare(make_pod("p", claims=["c1"]))
    driver.failures = ["busy"]
    async with beside(bench.manager.reconcile(lambda: set())):
        await asyncio.sleep(1)
        assert len(bench.manager.cache) == 1
        await asyncio.sleep(60)
        assert len(bench.manager.cache) == 0


# CDI devices of containers, from what is cached of prepared claims.

GPU = PluginDevice("p", "gpu-0", ("gpu",), ("d/gpu=0", "d/all=x"))
NIC = PluginDevice("p", "nic-0", ("nic",), ("d/nic=0", "d/all=x"))
ANY = PluginDevice("p", "any", (), ("e/any=0",))


def pod(*references: dict[str, Any]) -> Pod:
    spec = {
        "containers": [{"name": "c", "resources": {"claims": list(references)}}, {"name": "other"}],
        "resourceClaims": [{"name": "one", "resourceClaimName": "c1"}],
    }
    return from_dict(Pod, {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec})


def cache() -> ClaimInfoCache:
    found = ClaimInfoCache()
    drivers = {"d": DriverState((GPU, NIC)), "e": DriverState((ANY,))}
    found.add(ClaimInfo("ns", "c1", "uid", {"u"}, drivers))
    return found


def devices(made: Pod, container: int = 0) -> tuple[str, ...]:
    return cdi_devices(made, made.spec.containers[container], cache(), GATES)


def test_a_claim_as_a_whole_brings_all_its_devices_each_once() -> None:
    assert devices(pod({"name": "one"})) == ("d/gpu=0", "d/all=x", "d/nic=0", "e/any=0")


def test_a_request_brings_its_devices_and_those_that_serve_every_request() -> None:
    assert devices(pod({"name": "one", "request": "nic"})) == ("d/nic=0", "d/all=x", "e/any=0")


def test_a_container_that_names_no_claim_gets_nothing() -> None:
    assert devices(pod({"name": "one"}), container=1) == ()


def test_a_claim_that_is_not_prepared_is_named() -> None:
    made = pod({"name": "one"})
    with pytest.raises(ClaimError, match="unable to get claim info for ResourceClaim c1 in namespace ns"):
        cdi_devices(made, made.spec.containers[0], ClaimInfoCache(), GATES)


def test_devices_are_listed_with_their_drivers() -> None:
    (info,) = cache()
    assert list(claim_devices(info, "gpu")) == [("d", GPU), ("e", ANY)]


WITHOUT = FeatureGates.for_release("1.37", {"DRAOptionalNodeOperations": False})
WITH = FeatureGates.for_release("1.37", {"DRAOptionalNodeOperations": True})


def skipping_devices(*operations: tuple[str, ...]) -> ResourceClaim:
    """A claim with a device for each tuple of operations that it does without."""
    claim = make_claim("c", "p")
    allocation = claim.status.allocation
    assert allocation is not None
    result = allocation.devices.results[0]
    results = tuple(replace(result, skip_node_operations=each) for each in operations)
    devices = DeviceAllocationResult(results=results)
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


def test_a_pod_has_the_claims_of_its_entries_in_order() -> None:
    found = pod_claims(make_pod("p", claims=["a", "b"]), GATES)
    assert [(claim.entry, claim.name) for claim in found] == [("a", "a"), ("b", "b")]


def test_reservation_and_allocation_are_needed() -> None:
    pod = make_pod("p", claims=["c"])
    (wanted,) = pod_claims(pod, GATES)
    check_allowed(pod, make_claim("c", "p"), wanted, GATES)
    with pytest.raises(PrepareError, match=r"pod p \(uid-p\) is not allowed to use ResourceClaim c \(uid-c\)"):
        check_allowed(pod, make_claim("c", "other"), wanted, GATES)
    reserved = make_claim("c", "p")
    bare = replace(reserved, status=ResourceClaimStatus(reserved_for=reserved.status.reserved_for))
    with pytest.raises(PrepareError, match="ResourceClaim c: not allocated"):
        check_allowed(pod, bare, wanted, GATES)


def test_a_driver_skips_what_all_of_its_devices_skip() -> None:
    assert driver_states(make_claim("c"), GATES)[DRIVER].skip == frozenset()
    both = ("NodePrepareResources", "NodeUnprepareResources")
    assert driver_states(skipping_devices(("*",), both[:1]), WITH)[DRIVER].skip == {"NodePrepareResources"}
    assert driver_states(skipping_devices(("*",), ()), WITH)[DRIVER].skip == frozenset()
    with pytest.raises(PrepareError, match="feature gate is disabled"):
        driver_states(skipping_devices(("*",)), WITHOUT)
