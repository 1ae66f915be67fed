"""Volumes and the claims on them: defaults and rows."""

from __future__ import annotations

from cathedra.api.core.core_v1 import PersistentVolume, PersistentVolumeClaim
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import defaulted, row

CLAIM = {
    "spec": {"volumeName": "v", "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    "status": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
}


def test_a_bound_claim_shows_what_its_volume_has() -> None:
    found = row("persistentvolumeclaims", defaulted("persistentvolumeclaims", from_dict(PersistentVolumeClaim, CLAIM)))
    assert (found["Status"], found["Volume"], found["Capacity"]) == ("Pending", "v", "2Gi")
    assert (found["Access Modes"], found["StorageClass"], found["VolumeMode"]) == ("RWO,RWX", "fast", "Filesystem")
    assert found["VolumeAttributesClass"] == "<unset>"


def test_an_unbound_claim_shows_neither_capacity_nor_modes() -> None:
    values = {"spec": {"accessModes": ["ReadWriteOnce"]}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    found = row("persistentvolumeclaims", from_dict(PersistentVolumeClaim, values))
    assert (found["Status"], found["Capacity"], found["Access Modes"]) == ("Terminating", "", "")


def test_a_volume_is_kept_and_names_its_claim() -> None:
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOncePod"],
        "claimRef": {"namespace": "ns", "name": "c"},
    }
    metadata = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    made = defaulted("persistentvolumes", from_dict(PersistentVolume, {"metadata": metadata, "spec": spec}))
    found = row("persistentvolumes", made)
    assert (found["Capacity"], found["Access Modes"], found["Reclaim Policy"]) == ("5Gi", "RWOP", "Retain")
    assert (found["Claim"], found["StorageClass"], found["Status"]) == ("ns/c", "old", "Pending")
