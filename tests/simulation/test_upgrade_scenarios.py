"""Clusters that are upgraded in place, downgraded, and have features switched off and on: the scenarios M1 to M7 of
docs/spec/driver-sdk.md §20.

All programs of one release end, and those of another go on with what the machine keeps: the store, the containers, the
files of node agent and drivers. K3 has the cycle of DRAWorkloadResourceClaims (test_group_scenarios.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cathedra.api.resource import DeviceTaintRule, ResourceSlice
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.apiserver.config import ServerConfig
from cathedra.client.resources import DEVICETAINTRULES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import LoopClock, run_virtual
from cathedra.driver import Device, Pool
from cathedra.driver.publishing.controller import ResourceSliceController, SliceScope
from cathedra.driver.publishing.layout import lay_out
from cathedra.drivers.example.controls import PREPARE, UNPREPARE
from tests.running import beside
from tests.simulation.actors import NAME, TEST, Actors, a_driver, request
from tests.simulation.demos import NODE, KeptStorage, Machine, staged
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

OLD, NEW = "1.36", "1.37"
Step = Callable[[Actors], Awaitable[None]]


def through(*steps: tuple[tuple[str, ...], Step], make: Callable[[], Any] | None = None) -> None:
    """Play each step on a cluster with these options, all on one machine; ``make`` makes the drivers anew each time."""

    async def main() -> None:
        machine = Machine(LoopClock(asyncio.get_running_loop()))
        for options, step in steps:
            drivers = [make()] if make is not None else []
            async with staged(*options, machine=machine, drivers=drivers) as stage:
                on = Actors(stage, stage.driver.name)
                await on.settle(300)
                await step(on)

    run_virtual(main())


def of(release: str, *options: str) -> tuple[str, ...]:
    return (*TEST, "--kubernetes-version", release, *options)


async def gone(on: Actors, *pods: str) -> None:
    for name in pods:
        with pytest.raises(StatusError, match="not found"):
            await on.pod(name)


async def slices_of(on: Actors) -> list[ResourceSlice]:
    found = (await on.stage.client.resource(RESOURCESLICES).list()).items
    return [one for one in found if one.spec.driver == on.driver]


def test_m1_pods_go_on_through_upgrade_and_downgrade_and_can_be_deleted() -> None:
    async def before(on: Actors) -> None:
        await on.a_class()
        await on.a_claim("first")
        await on.a_pod("first", "first")
        await on.settle()
        assert await on.phase("first") == "Running"

    async def upgraded(on: Actors) -> None:
        assert len(await slices_of(on)) == 1
        assert await on.phase("first") == "Running"
        assert on.calls(PREPARE) == [], "what was prepared before is not prepared again"
        await on.stage.client.resource(RESOURCECLAIMS, "default").delete("first")
        await on.finish("first")
        await on.settle()
        await gone(on, "first")
        assert on.calls(UNPREPARE) == ["default/first"]
        assert await on.claims() == []
        await on.a_claim("second")
        await on.a_pod("second", "second")
        await on.settle()
        assert await on.phase("second") == "Running"

    async def downgraded(on: Actors) -> None:
        assert len(await slices_of(on)) == 1
        assert await on.phase("second") == "Running"
        await on.stage.client.resource(RESOURCECLAIMS, "default").delete("second")
        await on.finish("second")
        await on.settle()
        await gone(on, "second")
        assert on.calls(UNPREPARE) == ["default/second"]
        assert await on.claims() == []

    through((of(OLD), before), (of(NEW), upgraded), (of(OLD), downgraded))


CLAIMS = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"


def test_m2_the_status_of_devices_survives_in_each_version_of_the_api() -> None:
    """As in Kubernetes' own suite: two managers apply an entry each, one of them takes its own back in the end."""

    def entry(driver: str, interface: str, device: str = "my-device") -> dict[str, Any]:
        return {"driver": driver, "pool": "global", "device": device, "networkData": {"interfaceName": interface}}

    async def apply(asgi: ASGIClient, version: str, manager: str, *entries: dict[str, Any]) -> list[dict[str, Any]]:
        body: dict[str, Any] = {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": "ResourceClaim",
            "metadata": {"name": "claim"},
        }
        if entries:
            body["status"] = {"devices": list(entries)}
        query = f"?fieldManager={manager}&force=true"
        path = f"{CLAIMS.format(version)}/claim/status{query}"
        answer = await asgi("PATCH", path, body, content_type="application/apply-patch+yaml")
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json["status"]["devices"]
        return [{name: value for name, value in one.items() if value is not None} for one in found]

    async def main() -> None:
        store, one = KeptStorage(), entry("one", "net-1")
        older = {"resource.k8s.io/v1beta2": True}
        async with open_asgi(ServerConfig(release=OLD, runtime_config=older), store=store) as asgi:
            wanted = {"name": "foo", "exactly": {"deviceClassName": "foo"}}
            body = {"metadata": {"name": "claim", "finalizers": ["test.example.com/my-test-finalizer"]}}
            made = await asgi("POST", CLAIMS.format("v1beta2"), {**body, "spec": {"devices": {"requests": [wanted]}}})
            assert made.status == 201
            results = [
                {"request": "foo", "driver": driver, "pool": "global", "device": device}
                for driver, device in (("one", "my-device"), ("two", "another-device"), ("three", "my-device"))
            ]
            status = {"allocation": {"devices": {"results": results}}, "devices": [one]}
            path = f"{CLAIMS.format('v1beta2')}/claim/status"
            done = await asgi("PUT", path, {**made.json, "status": status})
            assert done.status == 200, done.body
            await apply(asgi, "v1beta2", "manager-1", entry("two", "net-2", "another-device"))
            found = await apply(asgi, "v1beta2", "manager-2", entry("three", "net-3"))
            assert found == [one, entry("two", "net-2", "another-device"), entry("three", "net-3")]
        changed = entry("two", "yet-another-net", "another-device")
        async with open_asgi(ServerConfig(release=NEW, runtime_config=older), store=store) as asgi:
            found = await apply(asgi, "v1", "manager-1", changed)
            assert found == [one, changed, entry("three", "net-3")]
        async with open_asgi(ServerConfig(release=OLD, runtime_config=older), store=store) as asgi:
            assert await apply(asgi, "v1beta2", "manager-2") == [one, changed]

    run_virtual(main())


RESOURCES = ("example.com/device", "deviceclass.resource.kubernetes.io/implicit")


def test_m3_extended_resources_are_served_before_and_after_and_let_go_at_the_end() -> None:
    async def a_user(on: Actors, name: str, resource: str) -> None:
        await on.a_pod(name, containers={"c": []}, limits={resource: "1"})
        await on.settle()
        pod = await on.pod(name)
        assert pod.status.phase == "Running"
        status = pod.status.extended_resource_claim_status
        assert status is not None
        assert [one.resource_name for one in status.request_mappings] == [resource]
        claim = await on.claim(status.resource_claim_name)
        assert claim.status.allocation is not None
        assert [owner.uid for owner in claim.metadata.owner_references] == [pod.metadata.uid]

    async def before(on: Actors) -> None:
        await on.a_class("explicit", extendedResourceName=RESOURCES[0])
        await on.a_class("implicit")
        for number, resource in enumerate(RESOURCES):
            await a_user(on, f"before-{number}", resource)

    async def upgraded(on: Actors) -> None:
        for number, resource in enumerate(RESOURCES):
            assert await on.phase(f"before-{number}") == "Running"
            await a_user(on, f"after-{number}", resource)

    async def downgraded(on: Actors) -> None:
        names = [f"{when}-{number}" for when in ("before", "after") for number in range(2)]
        assert [await on.phase(name) for name in names] == ["Running"] * 4
        for name in names:
            await on.finish(name)
        await on.settle(180)
        await gone(on, *names)
        assert await on.claims() == []

    through((of(OLD), before), (of(NEW), upgraded), (of(OLD), downgraded))


def test_m4_a_tolerated_taint_lets_a_pod_go_on_and_a_rule_still_holds_after_the_downgrade() -> None:
    rules = ("--feature-gates", "DRADeviceTaintRules=true", "--runtime-config", "resource.k8s.io/v1beta2=true")
    taint = {"key": "devicetaints", "value": "from-slice", "effect": "NoSchedule"}
    only = [{"cel": {"expression": f'device.attributes["{NAME}"].?type.orValue("") == "devicetaints"'}}]
    body = {
        "metadata": {"name": "devicetaints"},
        "spec": {
            "driver": NAME,
            "pool": {"name": "devicetaints", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "tainted", "attributes": {"type": {"string": "devicetaints"}}, "taints": [taint]}],
        },
    }

    async def before(on: Actors) -> None:
        await on.stage.client.resource(RESOURCESLICES).create(from_dict(ResourceSlice, body))
        await on.a_class()
        await on.a_claim("claim", request(selectors=only))
        await on.a_pod("tester", "claim")
        await on.settle()
        assert await on.phase("tester") == "Pending"
        claims = on.stage.client.resource(RESOURCECLAIMS, "default")
        await claims.delete("claim")
        await on.a_claim("claim", request(selectors=only, tolerations=[{**taint, "operator": "Equal"}]))
        await on.settle()
        assert (await on.pod("tester")).spec.node_name == NODE

    async def upgraded(on: Actors) -> None:
        assert (await on.pod("tester")).metadata.deletion_timestamp is None
        selector = {"driver": NAME, "pool": "devicetaints", "device": "tainted"}
        evict = {"key": "devicetaints", "value": "from-rule", "effect": "NoExecute"}
        rule = {"metadata": {"name": "rule"}, "spec": {"deviceSelector": selector, "taint": evict}}
        await on.stage.client.resource(DEVICETAINTRULES).create(from_dict(DeviceTaintRule, rule))
        await on.settle(300)
        await gone(on, "tester")

    async def downgraded(on: Actors) -> None:
        await on.a_pod("tester", "claim")
        await on.settle()
        pod = await on.pod("tester")
        assert (pod.status.phase, pod.spec.node_name) == ("Pending", "")

    through((of(OLD, *rules), before), (of(NEW), upgraded), (of(OLD, *rules), downgraded))


def parts() -> Any:
    """Four parts of 2Gi and two of 4Gi of 8Gi in all."""

    def part(name: str, size: str) -> Device:
        return Device(name, capacity={"memory": size}, consumes={"memory-pool": {"memory": size}})

    made = [part(f"memory{n}-2g", "2Gi") for n in range(4)] + [part(f"memory{n}-4g", "4Gi") for n in (4, 5)]
    return a_driver(*made, counters={"memory-pool": {"memory": "8Gi"}})


async def a_part(on: Actors, name: str, size: str) -> None:
    selector = f'device.capacity["{NAME}"].memory.compareTo(quantity("{size}")) == 0'
    await on.a_claim(name, request(selectors=[{"cel": {"expression": selector}}]))
    await on.a_pod(name, name)
    await on.settle()


@pytest.mark.parametrize("old", ["1.35", OLD])
def test_m5_partitions_keep_running_and_counters_still_count(old: str) -> None:
    gate = ("--feature-gates", "DRAPartitionableDevices=true")

    async def check(on: Actors) -> None:
        assert len(await slices_of(on)) == 2, "counters and devices"
        assert [await on.phase(name) for name in ("two", "four", "waits")] == ["Running", "Running", "Pending"]
        for name in ("two", "four"):
            (status,) = (await on.pod(name)).status.container_statuses
            assert status.restart_count == 0
        await a_part(on, "another-four", "4Gi")
        assert await on.phase("another-four") == "Pending"
        await a_part(on, "another-two", "2Gi")
        assert await on.phase("another-two") == "Running"
        for name in ("another-four", "another-two"):
            await on.finish(name)
            await on.settle()
            await on.stage.client.resource(RESOURCECLAIMS, "default").delete(name)

    async def before(on: Actors) -> None:
        await on.a_class()
        for name, size in (("two", "2Gi"), ("four", "4Gi"), ("waits", "4Gi")):
            await a_part(on, name, size)
        await check(on)

    through((of(old, *gate), before), (of(NEW), check), (of(old, *gate), check), make=parts)


def test_m6_extended_resources_stay_served_while_the_feature_is_off() -> None:
    on_gate, off_gate = (("--feature-gates", f"DRAExtendedResource={value}") for value in ("true", "false"))

    async def first(on: Actors) -> None:
        await on.a_class(extendedResourceName="example.com/device")
        await on.a_pod("stays", containers={"c": []}, limits={"example.com/device": "1"})
        await on.settle()
        assert await on.phase("stays") == "Running"

    async def switched_off(on: Actors) -> None:
        assert await on.phase("stays") == "Running"
        (claim,) = await on.claims()
        assert claim.status.allocation is not None
        await on.a_pod("waits", containers={"c": []}, limits={"example.com/device": "1"})
        await on.settle()
        assert await on.phase("waits") == "Pending"
        assert len(await on.claims()) == 1

    async def switched_on(on: Actors) -> None:
        await on.settle(400)
        assert [await on.phase(name) for name in ("stays", "waits")] == ["Running", "Running"]
        for name in ("stays", "waits"):
            await on.finish(name)
        await on.settle(180)
        assert await on.claims() == []

    through((of(OLD, *on_gate), first), (of(OLD, *off_gate), switched_off), (of(OLD, *on_gate), switched_on))


def test_m6_allocations_of_compatibility_groups_stay_valid_while_the_feature_is_off() -> None:
    on_gate, off_gate = (("--feature-gates", f"DRADeviceCompatibilityGroups={value}") for value in ("true", "false"))

    def board() -> Any:
        made = [
            Device(f"device-{n}", consumes={"gpu": {"mem": 1}}, compatibility_groups={"gpu": ["mig"]}) for n in range(4)
        ]
        return a_driver(*made, counters={"gpu": {"mem": 4}})

    async def first(on: Actors) -> None:
        await on.a_class()
        await on.a_claim("survivor", request(count=2, allocationMode="ExactCount"))
        await on.a_pod("survivor", "survivor")
        await on.settle()
        assert await on.phase("survivor") == "Running"

    async def survives(on: Actors) -> None:
        assert await on.phase("survivor") == "Running"
        assert len(await on.results("survivor")) == 2

    async def switched_on(on: Actors) -> None:
        await survives(on)
        await on.a_claim("fresh")
        await on.a_pod("fresh", "fresh")
        await on.settle()
        assert await on.phase("fresh") == "Running"

    through((of(NEW, *on_gate), first), (of(NEW, *off_gate), survives), (of(NEW, *on_gate), switched_on), make=board)


def test_m7_a_slice_that_is_deleted_comes_back_where_pools_cannot_be_selected() -> None:
    """Slices can be selected by their pool from 1.37 on; a controller of one pool must not depend on it."""
    pool = "pool-name-field-selector-fallback"

    async def step(on: Actors) -> None:
        errors: list[Exception] = []
        slices = ResourceSliceController(
            on.stage.client,
            "other.example.com",
            SliceScope(NODE, pool),
            clock=on.stage.clock,
            on_error=lambda error, _: errors.append(error),
        )
        slices.update(lay_out([Pool(devices=[Device("device-00")], name=pool, all_nodes=True)], NODE))
        async with beside(slices.run()):
            refs = on.stage.client.resource(RESOURCESLICES)

            async def only() -> ResourceSlice:
                (found,) = [one for one in (await refs.list()).items if one.spec.driver == "other.example.com"]
                assert (found.spec.all_nodes, found.spec.node_name, found.spec.pool.name) == (True, None, pool)
                assert [device.name for device in found.spec.devices] == ["device-00"]
                return found

            await on.settle()
            before = await only()
            await refs.delete(before.metadata.name)
            await on.settle()
            assert (await only()).metadata.uid != before.metadata.uid
            assert errors == []

    through((of(OLD), step), (of(NEW), step), (of(OLD), step))
