"""Cards whose bandwidth is shared."""

from __future__ import annotations

import re

import pytest

from cathedra.api.quantity import Quantity
from cathedra.drivers.example.driver import DriverOptions
from cathedra.drivers.example.net import BandwidthBurst, NetProfile
from cathedra.drivers.example.profile import Site
from tests.running import run_with
from tests.unit.driver.world import SHARES, World, in_virtual_time, opaque
from tests.unit.drivers.example.bench import Bench

CONFIG = {"apiVersion": "net.resource.example.com/v1alpha1", "kind": "NetConfig"}


def test_bandwidth_has_a_default_a_range_and_a_step_and_a_function_is_one() -> None:
    (card,) = NetProfile(1).pool(Site("net.example.com", "node-a")).devices
    made = card.to_api()
    policy, functions = made.capacity["ingressBandwidth"].request_policy, made.capacity["vfs"].request_policy
    assert policy is not None
    assert functions is not None
    assert policy.valid_range is not None
    assert (policy.default, policy.valid_range.min, policy.valid_range.step) == (
        Quantity("1G"),
        Quantity("100M"),
        Quantity("1M"),
    )
    assert functions.valid_values == (Quantity("1"),)


@run_with(in_virtual_time)
async def test_container_is_told_of_rates_in_bits_and_of_bursts(world: World) -> None:
    bench = Bench(world, NetProfile(1))
    share = bench.share("nic-0", SHARES[0], ingressBandwidth="10G", egressBandwidth="5G", vfs="1")
    burst = {**CONFIG, "bwBurst": {"ingressBurst": "2G", "egressBurst": 0}}
    variables = await bench.variables(share, config=[opaque(burst, driver="net.example.com")])
    assert {name: value for name, value in variables.items() if "RATE" in name or "BURST" in name} == {
        "NET_DEVICE_0_INGRESS_RATE": "10000000000",
        "NET_DEVICE_0_EGRESS_RATE": "5000000000",
        "NET_DEVICE_0_INGRESS_BURST": "2000000000",
    }
    assert variables["DRA_ADMIN_ACCESS"] == "false"


@run_with(in_virtual_time)
async def test_status_tells_interface_addresses_and_mac(world: World) -> None:
    bench = Bench(world, NetProfile(1), DriverOptions(publish_status=True))
    assert await bench.prepare(bench.share("nic-0", SHARES[0], ingressBandwidth="10G")) == ""
    (entry,) = (await world.claim("c")).status.devices
    data = entry.network_data
    assert entry.share_id == SHARES[0]
    assert entry.data is not None
    assert entry.data.load() == {"ingressBandwidth": "10G"}
    assert data is not None
    assert data.interface_name == "net0"
    assert re.fullmatch(r"02(:[0-9a-f]{2}){5}", data.hardware_address)
    assert [ip.rpartition("/")[2] for ip in data.ips] == ["8", "64"]


def test_a_burst_above_four_gigabytes_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 4 GB"):
        BandwidthBurst(ingress_burst="40G")
    with pytest.raises(ValueError, match="egressBurst: 'much'"):
        BandwidthBurst(egress_burst="much")
    assert BandwidthBurst(ingress_burst="34G").ingress_burst == "34G"
