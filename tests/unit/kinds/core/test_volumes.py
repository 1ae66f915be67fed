"""Volumes and the claims on them: defaults and rows."""

from __future__ import annotations

from cathedra.api.core.core_v1 import PersistentVolume, PersistentVolumeClaim
from cathedra.api.struct import from_dict, replace
from cathedra.api.timestamp import Time
from tests.unit.kinds.objects import context, created, defaulted, definition_of, row, updated

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


def test_volumes_and_claims_begin_pending() -> None:
    volume, _ = created(
        definition_of("persistentvolumes").strategy,
        from_dict(PersistentVolume, {"metadata": {"name": "v"}, "status": {"phase": "Bound"}}),
        context(),
    )
    claim, _ = created(
        definition_of("persistentvolumeclaims").strategy, from_dict(PersistentVolumeClaim, CLAIM), context()
    )
    assert volume.status.phase == claim.status.phase == "Pending"
    assert volume.status.last_phase_transition_time is not None
    assert claim.status.capacity == {}


def test_the_time_of_a_changed_phase_is_set_unless_the_author_sets_it() -> None:
    strategy = definition_of("persistentvolumes").subresources["status"]
    old = from_dict(
        PersistentVolume, {"status": {"phase": "Pending", "lastPhaseTransitionTime": "2025-01-01T00:00:00Z"}}
    )
    bound = replace(old, status=replace(old.status, phase="Bound"))
    changed, _ = updated(strategy, bound, old, context())
    assert changed.status.last_phase_transition_time == Time(context().now)
    own = Time(1_746_000_000.0)
    chosen = replace(bound, status=replace(bound.status, last_phase_transition_time=own))
    assert updated(strategy, chosen, old, context())[0].status.last_phase_transition_time == own
    assert updated(strategy, old, old, context())[0].status == old.status
