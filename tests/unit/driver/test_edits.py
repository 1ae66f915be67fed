"""What an author writes down, as a CDI document has it."""

from __future__ import annotations

from cathedra.cdi.spec import DeviceNode, Mount, NetDevice
from cathedra.driver.edits import Edits


def test_edits_become_those_of_a_document() -> None:
    mount = Mount(host_path="/a", container_path="/b")
    made = Edits(
        env={"A": "1"},
        device_nodes=["/dev/x", DeviceNode(path="/dev/y", permissions="r")],
        mounts=[mount],
        additional_gids=[44],
        net_devices={"eth1": "net1"},
    ).to_cdi()
    assert made.env == ("A=1",)
    assert made.device_nodes == (DeviceNode(path="/dev/x"), DeviceNode(path="/dev/y", permissions="r"))
    assert (made.mounts, made.additional_gids) == ((mount,), (44,))
    assert made.net_devices == (NetDevice(host_interface_name="eth1", name="net1"),)


def test_no_edits_are_none() -> None:
    assert Edits().to_cdi() == type(Edits().to_cdi())()
