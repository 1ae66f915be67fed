"""A cluster that is started from a dump: its nodes, and what its users had created."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.allocation import InvalidInput
from cathedra.api.core.core_v1 import Pod
from cathedra.insight.clusterimport import Masking, imported_groups, imported_objects, imported_profile
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.simulation.plan import profiled_node
from cathedra.insight.simulation.run import PlannedChanges, simulate
from cathedra.profiles import HardwareProfile, expanded_pools, load_profile, read_profile
from cathedra.profiles.loading import profile_yaml
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with


def test_nodes_keep_their_names_labels_taints_and_devices() -> None:
    objects = gpu_cluster(nodes=1)
    node = next(one for one in objects if one["kind"] == "Node")
    node["metadata"]["labels"] = {"zone": "a", "kubernetes.io/hostname": "node-0"}
    taints = [{"key": "team", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    node["spec"] = {"taints": taints}
    node["status"]["capacity"] = {"cpu": "8"}
    bare: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plain.example.com"}}
    first, second = imported_groups(read_dump([*objects, bare]))
    assert (first.node_names, dict(first.labels), dict(first.capacity)) == (("node-0",), {"zone": "a"}, {"cpu": "8"})
    assert [taint.key for taint in first.taints] == ["team"]
    assert first.profile is not None
    assert first.profile.drivers == ("gpu.example.com",)
    assert (second.node_names, second.profile) == (("plain.example.com",), None)


def test_objects_of_users_are_created_again_without_status_and_those_of_controllers_are_not() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    template, pod = pod_with(1)
    pod["spec"]["nodeName"] = "node-0"
    owned = {**pod, "metadata": {**pod["metadata"], "name": "owned", "uid": "owned", "ownerReferences": [owner]}}
    found = imported_objects(read_dump([*gpu_cluster(taken=1), template, pod, owned]))
    kinds = [ref.kind for ref, _ in found]
    assert kinds == ["Namespace", "Namespace", "DeviceClass", "ResourceClaimTemplate", "ResourceClaim", "Pod"]
    (made,) = (one for _, one in found if isinstance(one, Pod))
    assert (made.metadata.name, made.metadata.uid, made.spec.node_name, made.status.phase) == ("train", "", "", "")


# A node of a dump as a profile: same answers, no word of the machine.

SECRETS = ("db7", "AN12", "3b:", "pci0000:3a", "10.1.2.3", "3f2b8c1e", "rack-9", "token")


def dump() -> list[dict[str, Any]]:
    device = {
        "name": "0000-3b-00-0-0x1060",
        "attributes": {
            "acc.corp.com/model": {"string": "X{1}"},
            "uuid": {"string": "ACC-3f2b8c1e-1111-4222-8333-444455556666"},
            "serial": {"string": "AN12"},
            "host": {"string": "db7.corp.com"},
            "address": {"string": "10.1.2.3"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:3a"},
            "slots": {"int": 3},
        },
        "capacity": {"acc.corp.com/memory": {"value": "8Gi"}},
        "consumesCounters": [{"counterSet": "set", "counters": {"c": {"value": "1"}}}],
    }
    pool = {"name": "db7.corp.com", "generation": 4, "resourceSliceCount": 2}
    spec = {"driver": "acc.corp.com", "nodeName": "db7.corp.com", "pool": pool}
    old = {**spec, "pool": {**pool, "generation": 3}, "devices": [{"name": "gone"}]}
    counters = {**spec, "sharedCounters": [{"name": "set", "counters": {"c": {"value": "1"}}}]}
    slices = {"s0": counters, "s1": {**spec, "devices": [device]}, "s2": old}
    labels = {"acc.corp.com/rev": "7", "kubernetes.io/arch": "arm64", "topology.kubernetes.io/zone": "rack-9"}
    node_status = {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "1Ti"}}
    parameters = {"driver": "acc.corp.com", "parameters": {"kind": "token", "apiVersion": "x/v1"}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "db7.corp.com", "labels": labels},
            "status": node_status,
        },
        *(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": one}
            for name, one in slices.items()
        ),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "acc"},
            "spec": {
                "selectors": [{"cel": {"expression": 'device.driver == "acc.corp.com"'}}],
                "config": [{"opaque": parameters}],
            },
        },
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "all"}, "spec": {}},
    ]


def imported() -> HardwareProfile:
    profile, _ = imported_profile(read_dump(dump()), "db7.corp.com", "acc")
    return profile


def test_nothing_that_identifies_the_machine_is_left() -> None:
    text = profile_yaml(imported()).decode()
    assert [secret for secret in SECRETS if secret in text] == []


def test_structure_is_kept() -> None:
    profile = imported()
    (pool,) = expanded_pools(profile, "n1")
    (device,) = pool.devices
    assert (pool.driver, pool.name, device.name) == ("acc.corp.com", "n1", "0000-01-00-0-0x1060")
    assert (device.attributes["acc.corp.com/model"].string, device.attributes["slots"].int_) == ("X{1}", 3)
    assert device.attributes["host"].string == "n1"
    assert str(device.capacity["acc.corp.com/memory"].value) == "8Gi"
    assert device.consumes_counters[0].counter_set == pool.counter_sets[0].name
    assert profile.node.capacity == {"cpu": "8", "memory": "32Gi", "pods": "110"}
    assert profile.node.labels == {"acc.corp.com/rev": "7", "kubernetes.io/arch": "arm64"}
    assert [one.metadata.name for one in profile.device_classes] == ["acc"]


def test_what_is_left_out_is_told() -> None:
    _, left_out = imported_profile(read_dump(dump()), "db7.corp.com")
    assert left_out == ("the config of class acc",)


def test_the_same_dump_gives_the_same_file(tmp_path: Path) -> None:
    assert profile_yaml(imported()) == profile_yaml(imported())
    file = tmp_path / "acc.yaml"
    file.write_bytes(profile_yaml(imported()))
    assert expanded_pools(read_profile(file), "n") == expanded_pools(imported(), "n")


@pytest.mark.parametrize("name", ["h100-8", "gb200-4-mig", "gaudi3-8"])
def test_a_node_of_a_profile_is_imported_as_that_profile(name: str) -> None:
    """The copy has the same devices in the same order."""
    profile = load_profile(name)
    objects = [*profile.device_classes, *profiled_node(profile, "n1")]
    copy, _ = imported_profile(read_dump(objects), "n1")

    def names(of: HardwareProfile) -> dict[str, list[str]]:
        return {pool.driver: [device.name for device in pool.devices] for pool in expanded_pools(of, "n1")}

    if name == "gaudi3-8":  # its devices are named after PCI addresses, which are masked
        assert [len(found) for found in names(copy).values()] == [8]
    else:
        assert names(copy) == names(profile)


def test_an_imported_profile_can_be_simulated(tmp_path: Path) -> None:
    file = tmp_path / "acc.yaml"
    file.write_bytes(profile_yaml(imported()))
    claim = {"requests": [{"name": "a", "exactly": {"deviceClassName": "acc"}}]}
    pod = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "acc", "namespace": "default"},
            "spec": {"spec": {"devices": claim}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "containers": [{"name": "main", "image": "main"}],
                "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "acc"}],
            },
        },
    ]
    empty = read_dump([{"apiVersion": "v1", "kind": "PodList", "items": []}, *dump()[-1:]])
    found = simulate(empty, PlannedChanges(apply=pod, add_nodes=[f"2={file}"]), copies=5)
    (placed,) = found.placed
    assert placed.node in ("acc-1", "acc-2")
    assert [copies.more for copies in found.copies] == [1]


def test_a_node_without_devices_and_a_wrong_name_are_refused() -> None:
    state = read_dump([*dump(), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}])
    with pytest.raises(InvalidInput, match="no ResourceSlice in objects is of node 'bare'"):
        imported_profile(state, "bare")
    with pytest.raises(InvalidInput, match="there is no node 'no' in objects; there are"):
        imported_profile(state, "no")
    with pytest.raises(InvalidInput, match="'A b' cannot be a profile's name"):
        imported_profile(state, "db7.corp.com", "A b")


ONE = "3f2b8c1e-1111-4222-8333-444455556666"
TWO = "3f2b8c1e-1111-4222-8333-444455557777"


def test_uuids_become_numbered_placeholders_and_keep_what_stands_around_them() -> None:
    masking = Masking("n1")
    assert masking.text(f"GPU-{ONE}") == "GPU-{uuid:1}"
    assert masking.text(f"MIG-{TWO}") == "MIG-{uuid:2}"
    assert masking.text(ONE.upper()) == "{uuid:1}"


def test_pci_addresses_keep_device_and_function_and_which_share_a_bus() -> None:
    masking = Masking("n1")
    assert masking.text("0000:3b:00.0") == "0000:01:00.0"
    assert masking.text("0000:3b:00.1") == "0000:01:00.1"
    assert masking.text("0000:af:01.2") == "0000:02:01.2"
    assert masking.text("0000-3b-00-1-0x1060") == "0000-01-00-1-0x1060"
    assert masking.text("pci0000:3a") == "pci0000:01"


def test_serial_numbers_and_host_names_are_known_by_the_attribute() -> None:
    masking = Masking("n1")
    assert masking.attribute("serial", "AN21000123") == "{serial:1}"
    assert masking.attribute("boardSerialNumber", "other") == "{serial:2}"
    assert masking.attribute("serial", "AN21000123") == "{serial:1}"
    assert masking.attribute("hostname", "db7.corp.example.com") == "host-1"
    assert masking.attribute("hostname", "n1") == "{node}"
    assert masking.attribute("model", "AN21000123") == "AN21000123"


def test_names_of_nodes_are_masked_where_they_stand_alone() -> None:
    masking = Masking("gpu-7.corp.example.com", ["gpu-71.corp.example.com"])
    assert masking.text("gpu-7.corp.example.com") == "{node}"
    assert masking.text("gpu-71.corp.example.com/pool") == "node-1/pool"
    assert masking.text("pool-of-gpu-7.corp.example.com-x") == "pool-of-gpu-7.corp.example.com-x"


def test_network_addresses_are_replaced_by_those_of_documentation() -> None:
    masking = Masking("n1")
    assert masking.text("b8:ce:f6:01:02:03") == "02:00:00:00:00:01"
    assert masking.text("10.1.2.3:80 via 10.1.2.4") == "192.0.2.1:80 via 192.0.2.2"


def test_braces_are_no_placeholders() -> None:
    assert Masking("n1").text("{n}") == "{{n}}"


@given(st.lists(st.uuids(), min_size=1, max_size=6))
def test_equal_stays_equal_and_different_different(found: list[uuid.UUID]) -> None:
    masking = Masking("n1")
    made = [masking.text(str(one)) for one in found]
    assert [[a == b for b in made] for a in made] == [[a == b for b in found] for a in found]
    again = Masking("n1")
    assert made == [again.text(str(one)) for one in found]
