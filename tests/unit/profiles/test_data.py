"""The profiles that come with the program: the API server takes what they publish, and partitions add up."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import Cluster, how_many
from cathedra.client.resources import DEVICECLASSES, NODES, RESOURCESLICES
from cathedra.insight.simulation.plan import profiled_node
from cathedra.profiles import HardwareProfile, expanded_pools, load_profile, node_labels, profile_names
from tests.unit.inprocess import API, with_api

REFS = {"Node": NODES, "ResourceSlice": RESOURCESLICES, "DeviceClass": DEVICECLASSES}


def node_of(name: str) -> Cluster:
    profile = load_profile(name)
    return Cluster.of([*profile.device_classes, *profiled_node(profile, "n1")])


def one_more(name: str, *partitions: str) -> int:
    """Return the number of claims that fit on a node, each for these MIG partitions of one GPU."""
    requests = [
        {
            "name": f"r{number}",
            "exactly": {
                "deviceClassName": "mig.nvidia.com",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": f'device.attributes["gpu.nvidia.com"].profile == "{partition}"'}}],
            },
        }
        for number, partition in enumerate(partitions)
    ]
    return fitting(name, requests, [{"matchAttribute": "gpu.nvidia.com/parentUUID"}])


def fitting(name: str, requests: list[dict[str, Any]], constraints: list[dict[str, Any]] | None = None) -> int:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "default"},
        "spec": {"devices": {"requests": requests, "constraints": constraints or []}},
    }
    return sum(how_many(claim, node_of(name), limit=100).values())


def exactly(device_class: str, count: int = 1) -> dict[str, Any]:
    return {
        "name": "r",
        "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count},
    }


@pytest.mark.parametrize("name", profile_names())
def test_the_api_server_takes_everything_of_a_profile(name: str) -> None:
    profile = load_profile(name)

    async def create(api: API) -> int:
        made = 0
        for one in (*profile.device_classes, *profiled_node(profile, "n1")):
            await api.client.resource(REFS[type(one).__name__]).create(one)
            made += 1
        return made

    assert with_api(create) > 1


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_says_what_it_follows_and_what_is_not_confirmed(name: str) -> None:
    profile = load_profile(name)
    assert {one.driver for one in profile.follows} == set(profile.drivers)
    assert all(one.version and one.source for one in profile.follows)
    assert profile.unconfirmed
    assert profile.device_classes


def identities(profile: HardwareProfile, node: str) -> set[str]:
    return {
        text
        for pool in expanded_pools(profile, node)
        for device in pool.devices
        for name in ("uuid", "serial")
        if name in device.attributes and (text := device.attributes[name].string)
    }


@pytest.mark.parametrize("name", [name for name in profile_names() if not name.startswith(("sriov", "cpu", "mi300x"))])
def test_nodes_of_a_profile_differ_in_what_identifies_devices_and_stay_what_they_are(name: str) -> None:
    profile = load_profile(name)
    first, second = identities(profile, "a"), identities(profile, "b")
    if not (name.endswith("-mig") and name.startswith("a100")):  # there no whole device is published
        assert first
    assert not first & second
    assert identities(profile, "a") == first


@pytest.mark.parametrize("name", ["a100-8", "h100-8", "h200-8", "b200-8"])
def test_eight_whole_gpus_are_free_and_no_partition(name: str) -> None:
    assert fitting(name, [exactly("gpu.nvidia.com")]) == 8
    assert fitting(name, [exactly("mig.nvidia.com")]) == 0


@pytest.mark.parametrize(
    ("name", "small", "doubled", "two", "three", "four", "seven"),
    [
        ("a100-8-mig", "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        ("h100-8-mig", "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        ("h200-8-mig", "1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
        ("b200-8-mig", "1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    ],
)
def test_partitions_add_up_as_nvidia_lists_them(
    name: str, small: str, doubled: str, two: str, three: str, four: str, seven: str
) -> None:
    """The combinations of the MIG user guide: seven 1g, four 1g of double memory, three 2g, two 3g, one 4g, one 7g."""
    assert one_more(name, *[small] * 7) == 8
    assert one_more(name, *[small] * 8) == 0
    assert one_more(name, *[doubled] * 4) == 8
    assert one_more(name, *[two] * 3) == 8
    assert one_more(name, *[two] * 4) == 0
    assert one_more(name, three, three) == 8
    assert one_more(name, three, four) == 8
    assert one_more(name, four, four) == 0
    assert one_more(name, four, two, small) == 8
    assert one_more(name, seven) == 8
    assert one_more(name, seven, small) == 0


def test_media_engines_go_to_one_partition_of_each_gpu() -> None:
    assert one_more("h100-8-mig", "1g.10gb+me") == 8
    assert one_more("h100-8-mig", "1g.10gb+me", "1g.10gb+me") == 0


def test_a_whole_gpu_and_its_partitions_exclude_each_other() -> None:
    assert fitting("h100-8-mig", [exactly("gpu.nvidia.com")]) == 8
    both = [exactly("gpu.nvidia.com", 8), {**exactly("mig.nvidia.com"), "name": "part"}]
    assert fitting("h100-8-mig", both) == 0


def test_an_a100_in_mig_mode_is_offered_in_parts_alone() -> None:
    assert fitting("a100-8-mig", [exactly("gpu.nvidia.com")]) == 0


def test_a_tray_of_an_nvl72_has_a_channel_and_tells_its_domain() -> None:
    assert fitting("gb200-4", [exactly("compute-domain-default-channel.nvidia.com")]) == 1
    assert fitting("gb200-4", [exactly("gpu.nvidia.com", 4)]) == 1
    assert "nvidia.com/gpu.clique" in node_labels(load_profile("gb200-4"), "n1")


@pytest.mark.parametrize(
    ("name", "device_class", "count"),
    [
        ("mi300x-8", "gpu.amd.com", 8),
        ("gaudi3-8", "gaudi.intel.com", 8),
        ("tpu-v5e-8", "tpu.google.com", 8),
        ("sriov-2x8", "sriovnetwork.k8snetworkplumbingwg.io", 16),
    ],
)
def test_the_class_of_a_driver_selects_its_devices(name: str, device_class: str, count: int) -> None:
    assert fitting(name, [exactly(device_class)]) == count


def test_cpus_of_a_numa_node_are_shared_by_claims() -> None:
    request = exactly("dra.cpu")
    request["exactly"]["capacity"] = {"requests": {"dra.cpu/cpu": "8"}}
    assert fitting("cpu-2x56", [request]) == 14
