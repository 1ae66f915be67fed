"""Rules of volumes and of what containers mount: names that agree, one source each."""

from __future__ import annotations

from collections.abc import Sequence, Set
from operator import attrgetter
from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.api.struct import json_names
from cathedra.kinds.core.pods.validation.files import validate_files

__all__ = ["validate_mounts", "validate_volumes"]

_ATTRIBUTES: Final = tuple(attribute for attribute in json_names(core_v1.Volume) if attribute != "name")
_SOURCES: Final = tuple(json_names(core_v1.Volume)[attribute] for attribute in _ATTRIBUTES)
_read: Final = attrgetter(*_ATTRIBUTES)


def validate_volumes(errors: ErrorList, path: FieldPath, volumes: Sequence[core_v1.Volume]) -> frozenset[str]:
    """The names that containers may mount."""
    seen: set[str] = set()
    for position, volume in enumerate(volumes):
        where = path.index(position)
        _source(errors, where, volume)
        if not volume.name:
            errors.required(where.child("name"))
            continue
        prior = len(errors)
        check(errors, where.child("name"), volume.name, formats.dns_label)
        if volume.name in seen:
            errors.duplicate(where.child("name"), volume.name)
        if len(errors) == prior:
            seen.add(volume.name)
    return frozenset(seen)


def _source(errors: ErrorList, path: FieldPath, volume: core_v1.Volume) -> None:
    given = [(name, source) for name, source in zip(_SOURCES, _read(volume), strict=True) if source is not None]
    if not given:
        errors.required(path, "must specify a volume type")
        return
    first, source = given[0]
    for name, _ in given[1:]:
        errors.forbidden(path.child(name), "may not specify more than 1 volume type")
    for needed in _NEEDED.get(first, ()):
        if not _value(source, needed):
            errors.required(path.child(first, needed))
    validate_files(errors, path, volume)
    if volume.host_path is not None and volume.host_path.type not in (None, *_HOST_PATHS):
        errors.not_supported(path.child("hostPath", "type"), volume.host_path.type, _HOST_PATHS)


_HOST_PATHS: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_NEEDED: Final = {
    "hostPath": ("path",),
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
}


def _value(source: Any, name: str) -> Any:
    kind: Any = type(source)
    return next(getattr(source, attribute) for attribute, known in json_names(kind).items() if known == name)


def validate_mounts(
    errors: ErrorList, path: FieldPath, mounts: Sequence[core_v1.VolumeMount], volumes: Set[str]
) -> None:
    """Every mount is of a volume of the pod, at a place of its own."""
    places: set[str] = set()
    for position, mount in enumerate(mounts):
        where = path.index(position)
        if not mount.name:
            errors.required(where.child("name"))
        elif mount.name not in volumes:
            errors.not_found(where.child("name"), mount.name)
        if not mount.mount_path:
            errors.required(where.child("mountPath"))
        if mount.mount_path in places:
            errors.invalid(where.child("mountPath"), mount.mount_path, "must be unique")
        places.add(mount.mount_path)
        if mount.mount_propagation is not None and mount.mount_propagation not in _PROPAGATIONS:
            # Kubernetes says so of the list, whichever mount it is.
            errors.not_supported(path.child("mountPropagation"), mount.mount_propagation, _PROPAGATIONS)
        if mount.sub_path and mount.sub_path_expr:
            errors.invalid(
                where.child("subPathExpr"), mount.sub_path_expr, "subPathExpr and subPath are mutually exclusive"
            )
