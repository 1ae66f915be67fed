"""Scenarios that Kubernetes' own suite plays with its test driver, on ours, in virtual time.

Each test is named after the scenario of docs/spec/driver-sdk.md §20. Those that are about sockets, processes or cgroups
are played elsewhere; docs/driver-scenarios.md has the table.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMS
from cathedra.driver import Device
from cathedra.drivers.example.controls import PREPARE, UNPREPARE
from tests.running import run_with
from tests.simulation.actors import NAME, Actors, a_driver, devices, play, request
from tests.simulation.demos import NODE

PARAMETERS = {"opaque": {"driver": NAME, "parameters": {"a": "b"}}}


@run_with(play)
async def test_a2_prepare_that_fails_is_called_again_until_it_succeeds(on: Actors) -> None:
    on.order("fail", PREPARE)
    await on.a_tester()
    assert await on.phase("tester") == "Pending"
    assert len(on.calls(PREPARE)) > 1
    on.order("release", PREPARE)
    await on.settle()
    assert await on.phase("tester") == "Running"


@run_with(play)
async def test_a3_a_pod_on_a_node_waits_for_a_claim_that_is_never_allocated(on: Actors) -> None:
    await on.a_claim("claim", request(deviceClassName="nowhere"))
    await on.a_pod("tester", "claim", nodeName=NODE)
    await on.settle()
    assert await on.phase("tester") == "Pending"
    assert on.calls(PREPARE) == []


@run_with(play)
async def test_a4_a_pod_that_is_deleted_by_force_has_its_claim_unprepared(on: Actors) -> None:
    await on.a_tester()
    await on.finish("tester", force=True)
    await on.settle(60)
    assert on.calls(UNPREPARE) == ["default/claim"]


@run_with(play)
async def test_a5_a_claim_that_no_container_uses_is_prepared_all_the_same(on: Actors) -> None:
    await on.a_tester(containers={"without": []})
    assert await on.phase("tester") == "Running"
    assert on.calls(PREPARE) == ["default/claim"]


@run_with(play)
async def test_a6_containers_see_the_variables_of_their_requests_alone(on: Actors) -> None:
    def parameters(key: str, *requests: str) -> dict[str, Any]:
        return {"requests": list(requests), "opaque": {"driver": NAME, "parameters": {key: "yes"}}}

    await on.a_class()
    config = [parameters("all"), parameters("one", "one"), parameters("other", "other")]
    await on.a_claim("c", request("one"), request("other"), config=config)
    await on.a_pod("tester", "c", containers={"whole": ["c"], "first": ["c/one"]})
    await on.settle()
    told = await on.told("tester")
    assert told["first"] == ["claim_c_one=true", "user_all=yes", "user_one=yes"]
    assert told["whole"] == [
        "claim_c_one=true",
        "claim_c_other=true",
        "user_all=yes",
        "user_one=yes",
        "user_other=yes",
    ]


@run_with(play)
async def test_a7_a_claim_of_the_same_name_waits_until_the_old_one_is_unprepared(on: Actors) -> None:
    await on.a_tester()
    on.order("fail", UNPREPARE)
    await on.finish("tester", force=True)
    await on.settle()
    await on.stage.client.resource(RESOURCECLAIMS, "default").delete("claim")
    await on.settle()
    await on.a_claim()
    await on.a_pod("later", "claim")
    await on.settle()
    assert await on.phase("later") == "Pending"
    texts = await on.events("FailedPrepareDynamicResources")
    assert any("old ResourceClaim with same name claim and different UID" in text for text in texts)
    on.order("release", UNPREPARE)
    await on.settle(300)
    assert await on.phase("later") == "Running"


@run_with(play)
async def test_b1_parameters_of_claim_and_class_reach_the_container(on: Actors) -> None:
    await on.a_class(config=[{"opaque": {"driver": NAME, "parameters": {"x": "y"}}}])
    await on.a_claim(config=[PARAMETERS])
    await on.a_pod("tester", "claim")
    await on.settle()
    told = await on.told("tester")
    assert told["with-resource"] == ["admin_x=y", "claim_claim_my_request=true", "user_a=b"]


@run_with(lambda test: play(test, "--driver-profile", "test", "--gpus", "1"))
async def test_b2_a_device_is_used_again_when_its_pod_has_finished(on: Actors) -> None:
    await on.a_class()
    await on.a_template()
    await on.a_pod("first", "t:template")
    await on.a_pod("second", "t:template")
    await on.settle()
    assert sorted([await on.phase("first"), await on.phase("second")]) == ["Pending", "Running"]
    running = "first" if await on.phase("first") == "Running" else "second"
    await on.finish(running)
    await on.settle(200)
    assert await on.phase({"first": "second", "second": "first"}[running]) == "Running"


@run_with(play)
async def test_b3_five_pods_share_a_claim(on: Actors) -> None:
    await on.a_class()
    await on.a_claim()
    for number in range(5):
        await on.a_pod(f"tester-{number}", "claim")
    await on.settle()
    assert [await on.phase(f"tester-{number}") for number in range(5)] == ["Running"] * 5
    assert set(on.calls(PREPARE)) == {"default/claim"}


@run_with(play)
async def test_b4_a_pod_waits_for_its_class(on: Actors) -> None:
    await on.a_claim()
    await on.a_pod("tester", "claim")
    await on.settle()
    assert await on.phase("tester") == "Pending"
    await on.a_class()
    await on.settle()
    assert await on.phase("tester") == "Running"


@run_with(play)
async def test_b5_a_pod_waits_for_a_class_that_selects_a_device(on: Actors) -> None:
    await on.a_class(selector="false")
    await on.a_claim()
    await on.a_pod("tester", "claim")
    await on.settle()
    assert await on.phase("tester") == "Pending"
    classes = on.stage.client.resource(DEVICECLASSES)
    found = await classes.get("class")
    await classes.update(replace(found, spec=replace(found.spec, selectors=())))
    await on.settle()
    assert await on.phase("tester") == "Running"


@run_with(play)
async def test_b8_a_named_claim_is_deallocated_when_its_pod_is_gone(on: Actors) -> None:
    await on.a_tester()
    assert (await on.claim("claim")).status.reserved_for
    await on.finish("tester")
    await on.settle()
    status = (await on.claim("claim")).status
    assert (status.allocation, status.reserved_for) == (None, ())


@run_with(play)
async def test_b9_a_generated_claim_goes_with_its_pod(on: Actors) -> None:
    await on.a_class()
    await on.a_template()
    await on.a_pod("tester", "t:template")
    await on.settle()
    assert len(await on.claims()) == 1
    await on.finish("tester")
    await on.settle()
    assert await on.claims() == []


@run_with(play)
async def test_b11_a_second_claim_is_prepared_beside_one_that_is_shared(on: Actors) -> None:
    await on.a_class()
    for name in ("shared", "own"):
        await on.a_claim(name)
    await on.a_pod("first", "shared")
    await on.settle()
    await on.a_pod("second", "shared", "own")
    await on.settle()
    assert await on.phase("second") == "Running"
    assert on.calls(PREPARE) == ["default/shared", "default/own"]


@run_with(play)
async def test_b14_a_selector_that_fails_says_so(on: Actors) -> None:
    await on.a_class(selector=f'device.attributes["{NAME}"].nothing == 1')
    await on.a_claim()
    await on.a_pod("tester", "claim")
    await on.settle()
    assert await on.phase("tester") == "Pending"
    (condition,) = (one for one in (await on.pod("tester")).status.conditions if one.type == "PodScheduled")
    assert "CEL runtime error" in condition.message


def alternative(name: str, selector: str) -> dict[str, Any]:
    return {"name": name, "deviceClassName": "class", "selectors": [{"cel": {"expression": selector}}]}


@run_with(play)
async def test_d1_and_d2_the_alternative_that_was_chosen_has_its_config_and_no_other(on: Actors) -> None:
    await on.a_class()
    first = [alternative("sub-request-1", "false"), alternative("sub-request-2", "true")]
    config = [
        {"requests": [f"r/sub-request-{n}"], "opaque": {"driver": NAME, "parameters": {f"of{n}": "yes"}}}
        for n in (1, 2)
    ]
    await on.a_claim("c", {"name": "r", "firstAvailable": first}, config=config)
    await on.a_pod("tester", "c", containers={"one": ["c/r"]})
    await on.settle()
    allocation = (await on.claim("c")).status.allocation
    assert allocation is not None
    assert [result.request for result in allocation.devices.results or ()] == ["r/sub-request-2"]
    assert (await on.told("tester"))["one"] == ["claim_c_r=true", "user_of2=yes"]


@run_with(lambda test: play(test, "--gpus", "1", "--gpu-partitions", "2"))
async def test_h1_partitions_run_until_the_counters_are_used_up(on: Actors) -> None:
    await on.a_class()
    await on.a_class("whole", f'device.attributes["{on.driver}"].?full.orValue(false)')
    await on.a_template("part", request(selectors=[{"cel": {"expression": PART}}]))
    await on.a_template("whole", request(deviceClassName="whole"))
    await on.a_pod("part-1", "t:part")
    await on.settle()
    await on.a_pod("whole", "t:whole")
    await on.a_pod("part-2", "t:part")
    await on.settle()
    assert [await on.phase(name) for name in ("part-1", "whole", "part-2")] == ["Running", "Pending", "Running"]
    await on.finish("part-1")
    await on.finish("part-2")
    await on.settle(200)
    assert await on.phase("whole") == "Running"


PART = '!device.attributes["gpu.example.com"].?full.orValue(false)'


@run_with(lambda test: play(test, "--gpus", "1", "--allow-multiple-allocations"))
async def test_h2_shares_of_a_device_have_ids_of_their_own_and_no_more_than_it_has(on: Actors) -> None:
    await on.a_class()
    for number in (1, 2, 3):
        await on.a_claim(f"share-{number}", request(capacity={"requests": {"memory": "40Gi", "compute": "1"}}))
        await on.a_pod(f"tester-{number}", f"share-{number}")
        await on.settle()
    assert [await on.phase(f"tester-{n}") for n in (1, 2, 3)] == ["Running", "Running", "Pending"]
    results = [
        result
        for claim in await on.claims()
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results or ()
    ]
    assert {result.device for result in results} == {"gpu-0"}
    assert len({result.share_id for result in results}) == 2


@run_with(play)
async def test_l1_admin_access_needs_a_namespace_with_the_label(on: Actors) -> None:
    with pytest.raises(StatusError, match=r"resource\.kubernetes\.io/admin-access: true"):
        await on.a_claim("claim", request(adminAccess=True))


@run_with(play)
async def test_n5_and_n6_a_prepare_that_hangs_beyond_its_deadline_is_repeated(on: Actors) -> None:
    on.order("block", PREPARE)
    await on.a_tester()
    assert await on.phase("tester") == "Pending"
    on.order("release", PREPARE)
    await on.settle(120)
    assert await on.phase("tester") == "Running"


@run_with(play)
async def test_n7_a_pod_has_succeeded_only_when_its_claims_are_unprepared(on: Actors) -> None:
    on.order("fail", UNPREPARE)
    await on.a_tester(containers={"init-and-end": ["claim"]})
    assert on.calls(UNPREPARE)
    assert await on.phase("tester") == "Running"
    on.order("release", UNPREPARE)
    await on.settle(120)
    assert await on.phase("tester") == "Succeeded"


@run_with(play)
async def test_n9_unprepare_of_a_deleted_pod_is_repeated_until_it_succeeds(on: Actors) -> None:
    await on.a_tester()
    on.order("fail", UNPREPARE)
    await on.finish("tester", force=True)
    await on.settle(300)
    failed = len(on.calls(UNPREPARE))
    assert failed > 1
    on.order("release", UNPREPARE)
    await on.settle(300)
    assert len(on.calls(UNPREPARE)) == failed + 1
    assert on.stage.runner.service.prepared == ()


@run_with(lambda test: play(test, "--driver-profile", "test", "--gpus", "1"))
async def test_n26_a_device_is_not_prepared_for_two_claims_at_a_time(on: Actors) -> None:
    await on.a_class()
    await on.a_template()
    await on.a_pod("first", "t:template")
    await on.settle()
    on.order("fail", UNPREPARE)
    await on.finish("first", force=True)
    await on.settle()
    await on.a_pod("second", "t:template")
    await on.settle()
    assert await on.phase("second") == "Pending"
    assert any("still prepared for claim" in text for text in await on.events("FailedPrepareDynamicResources"))
    on.order("release", UNPREPARE)
    await on.settle(300)
    assert await on.phase("second") == "Running"


@run_with(play)
async def test_b10_a_pod_that_uses_its_claim_in_an_init_container_alone_runs_and_lets_go(on: Actors) -> None:
    await on.a_class()
    await on.a_claim()
    init = [{"name": "init0", "image": "debian", "resources": {"claims": [{"name": "claim"}]}}]
    await on.a_pod("tester", "claim", containers={"init-then-end": []}, initContainers=init)
    await on.settle()
    assert await on.phase("tester") == "Succeeded"
    assert (await on.claim("claim")).status.reserved_for == ()


@run_with(lambda test: play(test, "--driver-profile", "test", "--gpus", "1"))
async def test_i1_and_i4_a_tainted_device_is_for_claims_that_tolerate_it(on: Actors) -> None:
    for effect in ("NoSchedule", "NoExecute"):
        on.order("taint", "device-00", f"example.com/broken=yes:{effect}")
        await on.settle(5)
        tolerations = [{"key": "example.com/broken", "operator": "Exists", "effect": effect}]
        if effect == "NoSchedule":
            await on.a_class()
        await on.a_claim(f"fragile-{effect.lower()}")
        await on.a_claim(f"robust-{effect.lower()}", request(tolerations=tolerations))
        for kind in ("fragile", "robust"):
            await on.a_pod(f"{kind}-{effect.lower()}", f"{kind}-{effect.lower()}")
        await on.settle()
        assert await on.phase(f"fragile-{effect.lower()}") == "Pending"
        assert await on.phase(f"robust-{effect.lower()}") == "Running"
        for kind in ("fragile", "robust"):
            await on.finish(f"{kind}-{effect.lower()}")
        await on.settle()


@run_with(lambda test: play(test, "--driver-profile", "test", "--gpus", "1"))
async def test_i2_a_pod_that_is_evicted_is_told_by_whom(on: Actors) -> None:
    await on.a_tester()
    pods = on.stage.client.resource(PODS, "default")
    pod = await pods.get("tester")
    # So that what was written into the status can be read after the pod is gone.
    await pods.update(replace(pod, metadata=replace(pod.metadata, finalizers=("example.com/keep",))))
    on.order("taint", "device-00", "example.com/broken=yes:NoExecute")
    await on.settle()
    conditions = (await on.pod("tester")).status.conditions
    (condition,) = (one for one in conditions if one.type == "DisruptionTarget")
    assert condition.reason == "DeletionByDeviceTaintManager"
    assert condition.message == "Device Taint manager: deleting due to NoExecute taint"


@run_with(lambda test: play(test, "--driver-profile", "test", "--gpus", "3"))
async def test_j1_j5_and_j6_extended_resources_are_served_by_claims_and_no_more_than_there_are(on: Actors) -> None:
    await on.a_class(extendedResourceName="example.com/device")
    for name in ("init-then-end", "stays"):
        await on.a_pod(name, containers={name: []}, limits={"example.com/device": "2"})
        await on.settle()
    assert [await on.phase(name) for name in ("init-then-end", "stays")] == ["Succeeded", "Running"]
    status = (await on.pod("stays")).status.extended_resource_claim_status
    assert status is not None
    assert [(one.container_name, one.resource_name) for one in status.request_mappings] == [
        ("stays", "example.com/device")
    ]
    held = [claim.metadata.name for claim in await on.claims() if claim.status.allocation is not None]
    assert held == [status.resource_claim_name]
    await on.a_pod("waits", containers={"waits": []}, limits={"example.com/device": "2"})
    await on.settle()
    assert await on.phase("waits") == "Pending"


@run_with(lambda test: play(test, "--gpus", "8"))
async def test_d3_alternatives_are_chosen_so_that_a_constraint_over_requests_holds(on: Actors) -> None:
    def at(comparison: str) -> str:
        return f'device.attributes["{on.driver}"].index {comparison}'

    await on.a_class()
    # Four GPUs hang on each root, so the first alternative is at the wrong one.
    choices = [alternative("near", at("== 0")), alternative("any", "true")]
    far = request("far", selectors=[{"cel": {"expression": at(">= 4")}}])
    body = devices({"name": "chosen", "firstAvailable": choices}, far)
    body["devices"]["constraints"] = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
    claims = on.stage.client.resource(RESOURCECLAIMS, "default")
    await claims.create(from_dict(ResourceClaim, {"metadata": {"name": "claim"}, "spec": body}))
    await on.a_pod("tester", "claim")
    await on.settle()
    allocation = (await on.claim("claim")).status.allocation
    assert allocation is not None
    results = {result.request: result.device for result in allocation.devices.results or ()}
    assert results.keys() == {"chosen/any", "far"}
    assert {int(device.removeprefix("gpu-")) // 4 for device in results.values()} == {1}


@run_with(play)
async def test_j2_a_quantity_of_zero_needs_no_claim(on: Actors) -> None:
    await on.a_class(extendedResourceName="example.com/device")
    await on.a_pod("tester", containers={"none": []}, limits={"example.com/device": "0"})
    await on.settle()
    assert await on.phase("tester") == "Running"
    assert await on.claims() == []


@run_with(play)
async def test_j3_an_invalid_name_of_a_resource_is_refused(on: Actors) -> None:
    with pytest.raises(StatusError, match="limits"):
        await on.a_pod("tester", containers={"none": []}, limits={"example.com/not/a/name": "1"})


FILES = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/c"


@run_with(play)
async def test_e2_each_container_reads_the_metadata_of_its_own_request_alone(on: Actors) -> None:
    await on.a_class()
    await on.a_claim("c", request("one"), request("other"))
    await on.a_pod("tester", "c", containers={"first": ["c/one"], "second": ["c/other"]})
    await on.settle()
    pod = await on.pod("tester")
    devices = {request: device for request, _, device in await on.results("c")}
    for container, wanted in (("first", "one"), ("second", "other")):
        mounted = on.mounted(pod, container)
        assert list(mounted) == [f"{FILES}/{wanted}/{NAME}-metadata.json"]
        newest = json.JSONDecoder().raw_decode(mounted.popitem()[1].decode())[0]
        (described,) = newest["requests"]
        assert described["name"] == wanted
        assert [device["name"] for device in described["devices"]] == [devices[wanted]]


@run_with(lambda test: play(test, drivers=[a_driver(Device("a"), family="one"), a_driver(Device("b"), family="two")]))
async def test_e4_two_drivers_that_serve_one_request_write_a_file_each(on: Actors) -> None:
    await on.a_class(selector='device.driver.endsWith(".example.com")')
    await on.a_claim("c", request("both", allocationMode="All"))
    await on.a_pod("tester", "c", containers={"reader": ["c/both"]})
    await on.settle()
    assert await on.phase("tester") == "Running"
    assert {driver for _, driver, _ in await on.results("c")} == {"one.example.com", "two.example.com"}
    mounted = on.mounted(await on.pod("tester"), "reader")
    assert sorted(mounted) == [f"{FILES}/both/{name}.example.com-metadata.json" for name in ("one", "two")]
    for path, text in mounted.items():
        (described,) = json.JSONDecoder().raw_decode(text.decode())[0]["requests"]
        (device,) = described["devices"]
        assert device["driver"] in path


@run_with(play)
async def test_f6_the_health_of_the_devices_of_three_pods_changes_at_the_same_time(on: Actors) -> None:
    await on.a_class()
    names = ("first", "second", "third")
    for name in names:
        await on.a_claim(name)
        await on.a_pod(name, name)
    await on.settle()
    device = {name: (await on.results(name))[0][2] for name in names}
    assert len(set(device.values())) == 3
    for states in (("Unhealthy", "Healthy", "Unknown"), ("Healthy", "Unhealthy", "Unhealthy")):
        for name, state in zip(names, states, strict=True):
            on.order("health", device[name], state)
        await on.settle(60)
        for name, state in zip(names, states, strict=True):
            (status,) = (await on.pod(name)).status.container_statuses
            (about,) = status.allocated_resources_status
            assert [one.health for one in about.resources] == [state]
            assert about.resources[0].resource_id in on.container(await on.pod(name), "with-resource").cdi_devices


def test_g3_a_driver_whose_unprepare_alone_is_skipped_must_be_there() -> None:
    async def scene(on: Actors) -> None:
        await on.a_tester()
        assert await on.phase("tester") == "Pending"
        texts = await on.events("FailedPrepareDynamicResources")
        assert any(f"DRA driver {NAME} is not registered" in text for text in texts)
        assert on.calls(PREPARE) == []

    skipping = a_driver(Device("a"), skip_node_operations=("NodeUnprepareResources",))
    gate = ("--feature-gates", "DRAOptionalNodeOperations=true")
    play(scene, *gate, drivers=[skipping], plugins=())


def test_h3_devices_of_one_counter_set_are_used_together_only_in_a_common_group() -> None:
    def part(name: str, group: str) -> Device:
        return Device(
            name,
            attributes={"group": group},
            consumes={"board": {"slots": 1}},
            compatibility_groups={"board": [group]},
        )

    async def scene(on: Actors) -> None:
        await on.a_class()
        for name, group in (("first", "red"), ("foreign", "blue"), ("fellow", "red")):
            selector = f'device.attributes["{NAME}"].group == "{group}"'
            await on.a_claim(name, request(selectors=[{"cel": {"expression": selector}}]))
            await on.a_pod(name, name)
            await on.settle()
        phases = [await on.phase(name) for name in ("first", "foreign", "fellow")]
        assert phases == ["Running", "Pending", "Running"]
        (condition,) = (one for one in (await on.pod("foreign")).status.conditions if one.type == "PodScheduled")
        assert condition.reason == "Unschedulable"
        for name in ("first", "fellow"):
            await on.finish(name)
        await on.settle(200)
        assert await on.phase("foreign") == "Running"

    board = a_driver(
        part("red-0", "red"), part("red-1", "red"), part("blue-0", "blue"), counters={"board": {"slots": 3}}
    )
    play(scene, "--feature-gates", "DRADeviceCompatibilityGroups=true", drivers=[board])
