"""PersistentVolumes and the claims on them."""

from __future__ import annotations

from cathedra.api.core import core_v1
from cathedra.api.struct import replace
from cathedra.kinds.builtin import builtin
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import ResourceDefinition

__all__ = ["default_volume", "default_volume_claim", "volume_claim_definition", "volume_definition"]


def default_volume_claim(claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolumeClaim:
    """A claim on a volume with a file system."""
    status = replace(claim.status, **absent(claim.status, phase="Pending"))
    return replace(claim, spec=replace(claim.spec, **absent(claim.spec, volume_mode="Filesystem")), status=status)


def default_volume(volume: core_v1.PersistentVolume) -> core_v1.PersistentVolume:
    """A volume that is kept when its claim goes."""
    changes = absent(volume.spec, volume_mode="Filesystem", persistent_volume_reclaim_policy="Retain")
    status = replace(volume.status, **absent(volume.status, phase="Pending"))
    return replace(volume, spec=replace(volume.spec, **changes), status=status)


def volume_claim_definition() -> ResourceDefinition[core_v1.PersistentVolumeClaim]:
    """The definition of persistentvolumeclaims."""
    return builtin(
        core_v1.PersistentVolumeClaim,
        "persistentvolumeclaims",
        namespaced=True,
        default=default_volume_claim,
        short_names=("pvc",),
    )


def volume_definition() -> ResourceDefinition[core_v1.PersistentVolume]:
    """The definition of persistentvolumes."""
    return builtin(
        core_v1.PersistentVolume,
        "persistentvolumes",
        namespaced=False,
        default=default_volume,
        short_names=("pv",),
    )
