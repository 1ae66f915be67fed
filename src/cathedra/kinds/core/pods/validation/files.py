"""Rules of volumes that are made of files: which file says what, under which path, with which mode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.core.pods.validation.downward import (
    VOLUME_FIELDS,
    validate_container_resource_reference,
    validate_field_reference,
)
from cathedra.kinds.core.pods.validation.paths import validate_descending_path

__all__ = ["validate_files"]

_MODES: Final = range(0o1000)
_MODE_TEXT: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_CONFLICT: Final = "conflicting duplicate paths"
_TOKEN_SECONDS: Final = range(600, 2**32 + 1)


def validate_files(errors: ErrorList, path: FieldPath, volume: core_v1.Volume) -> None:
    """What a Secret, a ConfigMap, the downward API or several of them together put into a volume."""
    if volume.secret is not None:
        _mode(errors, path.child("secret", "defaultMode"), volume.secret.default_mode)
        _keys(errors, path.child("secret", "items"), volume.secret.items)
    if volume.downward_api is not None:
        where = path.child("downwardAPI")
        _mode(errors, where.child("defaultMode"), volume.downward_api.default_mode)
        for file in volume.downward_api.items:
            _downward(errors, where, file)
    if volume.config_map is not None:
        _mode(errors, path.child("configMap", "defaultMode"), volume.config_map.default_mode)
        _keys(errors, path.child("configMap", "items"), volume.config_map.items)
    if volume.projected is not None:
        where = path.child("projected")
        _mode(errors, where.child("defaultMode"), volume.projected.default_mode)
        taken: set[str] = set()
        for position, source in enumerate(volume.projected.sources):
            _projection(errors, where, where.child("sources").index(position), source, taken)


def _projection(
    errors: ErrorList, volume: FieldPath, path: FieldPath, source: core_v1.VolumeProjection, taken: set[str]
) -> None:
    """One source of several; ``taken`` are the paths of those before it. What is taken twice is said of the volume."""
    for name, keys in (("secret", source.secret), ("configMap", source.config_map)):
        if keys is None:
            continue
        if not keys.name:
            errors.required(path.child(name, "name"))
        _keys(errors, path.child(name, "items"), keys.items)
        for item in keys.items:
            _take(errors, volume, item.path, keys.name, taken)
    if source.downward_api is not None:
        for file in source.downward_api.items:
            _downward(errors, path.child("downwardAPI"), file)
            _take(errors, volume, file.path, file.path, taken)
    if source.service_account_token is not None:
        _token(errors, volume, path.child("serviceAccountToken"), source.service_account_token)
    given = (
        source.secret,
        source.downward_api,
        source.config_map,
        source.service_account_token,
        source.cluster_trust_bundle,
        source.pod_certificate,
    )
    if sum(one is not None for one in given) > 1:
        errors.forbidden(path, "may not specify more than 1 volume type per source")


def _token(errors: ErrorList, volume: FieldPath, path: FieldPath, token: core_v1.ServiceAccountTokenProjection) -> None:
    seconds = token.expiration_seconds
    if seconds is not None and seconds not in _TOKEN_SECONDS:
        short = seconds < _TOKEN_SECONDS.start
        text = "less than 10 minutes" if short else "larger than 2^32 seconds"
        errors.invalid(path.child("expirationSeconds"), seconds, f"may not specify a duration {text}")
    if not token.path:
        errors.required(volume.child("path"))
    else:
        _place(errors, volume.child("path"), token.path)


def _take(errors: ErrorList, volume: FieldPath, path: str, shown: str, taken: set[str]) -> None:
    if path and path in taken:
        errors.invalid(volume, shown, _CONFLICT)
    taken.add(path)


def _keys(errors: ErrorList, path: FieldPath, items: Iterable[core_v1.KeyToPath]) -> None:
    for position, item in enumerate(items):
        where = path.index(position)
        if not item.key:
            errors.required(where.child("key"))
        if not item.path:
            errors.required(where.child("path"))
        _place(errors, where.child("path"), item.path)
        _mode(errors, where.child("mode"), item.mode)


def _downward(errors: ErrorList, path: FieldPath, file: core_v1.DownwardAPIVolumeFile) -> None:
    if not file.path:
        errors.required(path.child("path"))
    _place(errors, path.child("path"), file.path)
    if file.field_ref is not None:
        validate_field_reference(errors, path.child("fieldRef"), file.field_ref, VOLUME_FIELDS)
        if file.resource_field_ref is not None:
            errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif file.resource_field_ref is not None:
        where, reference = path.child("resourceFieldRef"), file.resource_field_ref
        validate_container_resource_reference(errors, where, reference)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    _mode(errors, path.child("mode"), file.mode)


def _mode(errors: ErrorList, path: FieldPath, mode: int | None) -> None:
    if mode is not None and mode not in _MODES:
        errors.invalid(path, mode, _MODE_TEXT)


def _place(errors: ErrorList, path: FieldPath, place: str) -> None:
    """A path below the volume, that is none of the names that the node keeps for itself."""
    validate_descending_path(errors, path, place)
    if place.startswith("..") and not place.startswith("../"):
        errors.invalid(path, place, "must not start with '..'")
