"""PersistentVolumes and the claims on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import replace
from cathedra.api.timestamp import Time
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import SpecStrategy, StatusStrategy

_SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASSES: Final = (
    Column("StorageClass", description="The class of storage."),
    Column("VolumeAttributesClass", description="The class of attributes."),
)
_MODE: Final = Column("VolumeMode", priority=1, description="Whether it has a file system.")
VOLUME_CLAIM_COLUMNS: Final = (
    NAME,
    Column("Status", description="Whether a volume is bound."),
    Column("Volume", description="The volume."),
    Column("Capacity", description="The size of the volume."),
    Column("Access Modes", description="How the volume may be mounted."),
    *_CLASSES,
    AGE,
    _MODE,
)
VOLUME_COLUMNS: Final = (
    NAME,
    Column("Capacity", description="The size."),
    Column("Access Modes", description="How it may be mounted."),
    Column("Reclaim Policy", description="What becomes of it after its claim."),
    Column("Status", description="Whether it is bound."),
    Column("Claim", description="The claim that has it."),
    *_CLASSES,
    Column("Reason", description="Why it failed."),
    AGE,
    _MODE,
)


def default_volume_claim(claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolumeClaim:
    """Return the object with its defaults: a claim on a volume with a file system."""
    status = replace(claim.status, **absent(claim.status, phase="Pending"))
    return replace(claim, spec=replace(claim.spec, **absent(claim.spec, volume_mode="Filesystem")), status=status)


def default_volume(volume: core_v1.PersistentVolume) -> core_v1.PersistentVolume:
    """Return the object with its defaults: a volume that is kept when its claim goes."""
    changes = absent(volume.spec, volume_mode="Filesystem", persistent_volume_reclaim_policy="Retain")
    host_path = volume.spec.host_path
    if host_path is not None and host_path.type is None:
        changes["host_path"] = replace(host_path, type="")
    status = replace(volume.status, **absent(volume.status, phase="Pending"))
    return replace(volume, spec=replace(volume.spec, **changes), status=status)


class VolumeClaimStrategy(SpecStrategy[core_v1.PersistentVolumeClaim]):
    """A claim for a volume waits at first."""

    def prepare_create(
        self, obj: core_v1.PersistentVolumeClaim, context: RequestContext
    ) -> core_v1.PersistentVolumeClaim:
        """Set the phase that a new claim has."""
        created = super().prepare_create(obj, context)
        return replace(created, status=core_v1.PersistentVolumeClaimStatus(phase="Pending"))


class VolumeStrategy(SpecStrategy[core_v1.PersistentVolume]):
    """A volume is pending at first, since the time of its creation."""

    def prepare_create(self, obj: core_v1.PersistentVolume, context: RequestContext) -> core_v1.PersistentVolume:
        """Set the phase that a new volume has."""
        created = super().prepare_create(obj, context)
        status = core_v1.PersistentVolumeStatus(phase="Pending", last_phase_transition_time=Time(context.now))
        return replace(created, status=status)


class VolumeStatusStrategy(StatusStrategy[core_v1.PersistentVolume]):
    """The status of a volume, which has the time of the last change of its phase."""

    def prepare_update(
        self, new: core_v1.PersistentVolume, old: core_v1.PersistentVolume, context: RequestContext
    ) -> core_v1.PersistentVolume:
        """Keep the spec, and set the time of a changed phase unless the author does."""
        kept = super().prepare_update(new, old, context)
        given, before = kept.status.last_phase_transition_time, old.status.last_phase_transition_time
        if kept.status.phase == old.status.phase or (given is not None and given != before):
            return kept
        return replace(kept, status=replace(kept.status, last_phase_transition_time=Time(context.now)))


def volume_claim_cells(claim: core_v1.PersistentVolumeClaim, now: float) -> list[Any]:
    """Return the cells of a PersistentVolumeClaim; capacity and modes are those of its volume."""
    spec, status = claim.spec, claim.status
    bound = bool(spec.volume_name)
    return [
        claim.metadata.name,
        _phase(claim, status.phase),
        spec.volume_name,
        str(status.capacity.get("storage", 0)) if bound else "",
        _modes(status.access_modes) if bound else "",
        _class(claim, spec.storage_class_name),
        _or_unset(spec.volume_attributes_class_name),
        age(claim.metadata.creation_timestamp, now),
        _or_unset(spec.volume_mode),
    ]


def volume_cells(volume: core_v1.PersistentVolume, now: float) -> list[Any]:
    """Return the cells of a PersistentVolume."""
    spec = volume.spec
    claim = spec.claim_ref
    return [
        volume.metadata.name,
        str(spec.capacity.get("storage", 0)),
        _modes(spec.access_modes),
        spec.persistent_volume_reclaim_policy,
        _phase(volume, volume.status.phase),
        f"{claim.namespace}/{claim.name}" if claim is not None else "",
        _class(volume, spec.storage_class_name),
        _or_unset(spec.volume_attributes_class_name),
        volume.status.reason,
        age(volume.metadata.creation_timestamp, now),
        _or_unset(spec.volume_mode),
    ]


def _phase(obj: KubeObject, phase: str) -> str:
    return "Terminating" if obj.metadata.deletion_timestamp is not None else phase


def _modes(modes: Iterable[str]) -> str:
    given = set(modes)
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in given)


def _class(obj: KubeObject, name: str | None) -> str:
    """Return the storage class, from the annotation that came before the field, or from the field."""
    return obj.metadata.annotations.get("volume.beta.kubernetes.io/storage-class", name or "")


def _or_unset(value: str | None) -> str:
    return "<unset>" if value is None else value


def volume_claim_definition() -> ResourceDefinition[core_v1.PersistentVolumeClaim]:
    """Return the definition of persistentvolumeclaims."""
    return BuiltinKind(
        core_v1.PersistentVolumeClaim,
        "persistentvolumeclaims",
        returns_deleted_object=True,
        namespaced=True,
        default=default_volume_claim,
        strategy=VolumeClaimStrategy(default_volume_claim),
        table=(VOLUME_CLAIM_COLUMNS, volume_claim_cells),
        short_names=("pvc",),
    ).definition()


def volume_definition() -> ResourceDefinition[core_v1.PersistentVolume]:
    """Return the definition of persistentvolumes."""
    return BuiltinKind(
        core_v1.PersistentVolume,
        "persistentvolumes",
        returns_deleted_object=True,
        namespaced=False,
        default=default_volume,
        strategy=VolumeStrategy(default_volume),
        status=VolumeStatusStrategy(default_volume),
        table=(VOLUME_COLUMNS, volume_cells),
        short_names=("pv",),
    ).definition()
