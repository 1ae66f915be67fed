"""Applying edits to an OCI spec (docs/spec/node.md §20)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cathedra.cdi.edits import HostNode, RealHostNodes, apply_edits
from cathedra.cdi.spec import ContainerEdits, DeviceNode, Hook, InjectionFailed, IntelRdt, Mount, NetDevice


class Host:
    """A host with the given device nodes."""

    def __init__(self, **nodes: HostNode) -> None:
        self.nodes = {f"/dev/{name}": node for name, node in nodes.items()}

    def find(self, path: str) -> HostNode | None:
        return self.nodes.get(path)


GPU = HostNode("c", 195, 7, 0o660)


def edited(oci: dict[str, Any] | None = None, *, host: Host | None = None, **edits: Any) -> dict[str, Any]:
    return apply_edits(oci or {}, ContainerEdits(**edits), host or Host(gpu0=GPU))


def test_the_input_is_left_alone() -> None:
    oci = {"process": {"env": ["A=0"]}}
    edited(oci, env=("A=1",))
    assert oci == {"process": {"env": ["A=0"]}}


def test_a_variable_is_replaced_in_place_or_appended() -> None:
    out = edited({"process": {"env": ["A=0", "B=0"]}}, env=("A=1", "C=1", "C=2"))
    assert out["process"]["env"] == ["A=1", "B=0", "C=2"]


def test_a_device_is_completed_from_the_host_and_allowed() -> None:
    out = edited(device_nodes=(DeviceNode(path="/dev/inside", host_path="/dev/gpu0"),))
    assert out["linux"]["devices"] == [
        {"path": "/dev/inside", "type": "c", "major": 195, "minor": 7, "fileMode": 0o660}
    ]
    rule = {"allow": True, "type": "c", "major": 195, "minor": 7, "access": "rwm"}
    assert out["linux"]["resources"]["devices"] == [rule]


def test_a_device_at_the_same_path_is_replaced() -> None:
    present = {"linux": {"devices": [{"path": "/dev/gpu0", "type": "c", "major": 1, "minor": 3}]}}
    out = edited(present, device_nodes=(DeviceNode(path="/dev/gpu0"),))
    assert [device["major"] for device in out["linux"]["devices"]] == [195]


def test_a_minimally_specified_device_need_not_exist_and_takes_the_mode_if_it_does() -> None:
    node = DeviceNode(path="/dev/gpu9", type="c", major=195, minor=9, permissions="none")
    out = edited(device_nodes=(node,))
    assert out["linux"]["devices"] == [{"path": "/dev/gpu9", "type": "c", "major": 195, "minor": 9}]
    assert out["linux"]["resources"]["devices"][0]["access"] == ""
    there = edited(device_nodes=(node,), host=Host(gpu9=HostNode("c", 1, 1, 0o600)))
    assert there["linux"]["devices"][0] | {"fileMode": 0o600} == there["linux"]["devices"][0]


def test_a_fifo_gets_no_numbers_and_no_rule() -> None:
    out = edited(device_nodes=(DeviceNode(path="/dev/pipe", type="p"),))
    assert out["linux"] == {"devices": [{"path": "/dev/pipe", "type": "p"}]}


def test_a_non_root_process_owns_its_devices() -> None:
    out = edited({"process": {"user": {"uid": 1000, "gid": 50}}}, device_nodes=(DeviceNode(path="/dev/gpu0", gid=7),))
    assert (out["linux"]["devices"][0]["uid"], out["linux"]["devices"][0]["gid"]) == (1000, 7)


@pytest.mark.parametrize("node", [DeviceNode(path="/dev/none"), DeviceNode(path="/dev/gpu0", type="b")])
def test_a_missing_or_different_host_device_is_an_error(node: DeviceNode) -> None:
    with pytest.raises(InjectionFailed):
        edited(device_nodes=(node,))


def test_mounts_replace_the_same_destination_and_parents_come_first() -> None:
    present = {"mounts": [{"destination": "/a/b/c"}, {"destination": "/x/y"}, {"destination": "/proc"}]}
    mounts = (
        Mount(host_path="/new", container_path="/x/y", options=("ro", "bind")),
        Mount(host_path="/h", container_path="/a"),
    )
    out = edited(present, mounts=mounts)
    assert [mount["destination"] for mount in out["mounts"]] == ["/proc", "/a", "/x/y", "/a/b/c"]
    assert out["mounts"][2] == {"destination": "/x/y", "source": "/new", "options": ["ro", "bind"]}


def test_bind_mounts_are_id_mapped_in_a_user_namespace() -> None:
    present = {"linux": {"namespaces": [{"type": "user"}]}}
    mounts = (
        Mount(host_path="/a", container_path="/a", options=("bind",)),
        Mount(host_path="/b", container_path="/b", options=("rbind", "ro")),
        Mount(host_path="/c", container_path="/c", options=("bind", "idmap")),
    )
    options = [mount["options"] for mount in edited(present, mounts=mounts)["mounts"]]
    assert options == [["bind", "idmap"], ["rbind", "ro", "ridmap"], ["bind", "idmap"]]


def test_hooks_groups_interfaces_and_rdt_arrive() -> None:
    out = edited(
        {"process": {"user": {"additionalGids": [5]}}, "hooks": {"poststop": [{"path": "/first"}]}},
        hooks=(Hook(hook_name="poststop", path="/second", args=("a", "b"), timeout=3),),
        additional_gids=(0, 5, 7),
        net_devices=(NetDevice(host_interface_name="eth1", name="net0"),),
        intel_rdt=IntelRdt(clos_id="gold", enable_monitoring=True),
    )
    assert out["hooks"]["poststop"] == [{"path": "/first"}, {"path": "/second", "args": ["a", "b"], "timeout": 3}]
    assert out["process"]["user"]["additionalGids"] == [5, 7]
    assert out["linux"]["netDevices"] == {"eth1": {"name": "net0"}}
    assert out["linux"]["intelRdt"] == {"closID": "gold", "enableMonitoring": True}


def test_the_real_host_knows_its_null_device_and_nothing_that_is_no_device(tmp_path: Path) -> None:
    null = RealHostNodes().find("/dev/null")
    assert null is not None
    assert (null.type, null.major, null.minor) == ("c", 1, 3)
    assert RealHostNodes().find(str(tmp_path)) is None
    assert RealHostNodes().find(str(tmp_path / "none")) is None
