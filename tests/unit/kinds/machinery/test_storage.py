"""Kinds of storage.k8s.io: rows."""

from __future__ import annotations

import pytest

from cathedra.api.core import storage_v1
from cathedra.api.struct import from_dict, to_dict
from cathedra.kinds.machinery.storage import default_driver, default_storage_class
from tests.unit.kinds.objects import context, definition_of, row


def test_a_class_says_whether_it_is_the_default_and_what_it_leaves_out() -> None:
    metadata = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    found = row("storageclasses", from_dict(storage_v1.StorageClass, {"metadata": metadata, "provisioner": "p"}))
    assert (found["Name"], found["Provisioner"], found["ReclaimPolicy"]) == ("fast (default)", "p", "Delete")
    assert (found["VolumeBindingMode"], found["AllowVolumeExpansion"]) == ("Immediate", False)


def test_a_driver_attaches_unless_it_says_otherwise() -> None:
    plain = row("csidrivers", from_dict(storage_v1.CSIDriver, {}))
    assert (plain["AttachRequired"], plain["PodInfoOnMount"], plain["TokenRequests"], plain["Modes"]) == (
        True,
        False,
        "<unset>",
        "<none>",
    )
    spec = {
        "attachRequired": False,
        "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
        "volumeLifecycleModes": ["Ephemeral"],
    }
    told = row("csidrivers", from_dict(storage_v1.CSIDriver, {"spec": spec}))
    assert (told["AttachRequired"], told["TokenRequests"], told["Modes"]) == (False, "a,b", "Ephemeral")


def test_a_class_deletes_and_binds_at_once_unless_it_says_otherwise() -> None:
    plain = default_storage_class(from_dict(storage_v1.StorageClass, {"provisioner": "p"}))
    assert (plain.reclaim_policy, plain.volume_binding_mode) == ("Delete", "Immediate")
    told = from_dict(storage_v1.StorageClass, {"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"})
    assert default_storage_class(told) is told


def test_a_driver_is_taken_to_attach_and_to_have_persistent_volumes() -> None:
    given = from_dict(storage_v1.CSIDriver, {"spec": {"attachRequired": False}})
    assert to_dict(default_driver(given))["spec"] == {
        "attachRequired": False,
        "podInfoOnMount": False,
        "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
    }
    assert default_driver(default_driver(given)) == default_driver(given)


@pytest.mark.parametrize(("release", "field"), [("1.37", "attachedRequired"), ("1.38", "attachRequired")])
def test_a_driver_keeps_what_its_volumes_depend_on(release: str, field: str) -> None:
    """kubernetes/kubernetes#141597."""
    old, new = (
        from_dict(storage_v1.CSIDriver, {"spec": {"attachRequired": attach, "volumeLifecycleModes": modes}})
        for attach, modes in ((True, ["Persistent"]), (False, ["Ephemeral"]))
    )
    strategy = definition_of("csidrivers").strategy
    assert [str(error) for error in strategy.validate_update(new, old, context(release))] == [
        f"spec.{field}: Invalid value: false: field is immutable",
        'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable',
    ]
    assert list(strategy.validate_update(old, old, context(release))) == []


def test_nodes_capacities_and_attachments_are_counted_and_named() -> None:
    node = {"spec": {"drivers": [{"name": "a", "nodeID": "x"}, {"name": "b", "nodeID": "y"}]}}
    assert row("csinodes", from_dict(storage_v1.CSINode, node))["Drivers"] == 2
    capacity = row("csistoragecapacities", from_dict(storage_v1.CSIStorageCapacity, {"storageClassName": "fast"}))
    assert (capacity["StorageClassName"], capacity["Capacity"]) == ("fast", "<unset>")
    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    attached = row(
        "volumeattachments", from_dict(storage_v1.VolumeAttachment, {"spec": spec, "status": {"attached": True}})
    )
    assert (attached["Attacher"], attached["PV"], attached["Node"], attached["Attached"]) == ("a", "v", "n", True)


def test_a_class_of_volume_attributes_shows_its_driver() -> None:
    found = row(
        "volumeattributesclasses", from_dict(storage_v1.VolumeAttributesClass, {"driverName": "csi.example.com"})
    )
    assert found["DriverName"] == "csi.example.com"
