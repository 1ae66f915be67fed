"""Rules of volumes, of their files, and of mounts.

References to fields and resources of the pod (the downward API) are validated here for volumes and for environment
variables: otherwise only the node would find a wrong name, when it starts the container.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from operator import attrgetter
from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.api.quantity import Quantity
from cathedra.api.struct import json_names

_ATTRIBUTES: Final = tuple(attribute for attribute in json_names(core_v1.Volume) if attribute != "name")
_SOURCES: Final = tuple(json_names(core_v1.Volume)[attribute] for attribute in _ATTRIBUTES)
_read: Final = attrgetter(*_ATTRIBUTES)


def validate_volumes(errors: ErrorList, path: FieldPath, volumes: Sequence[core_v1.Volume]) -> frozenset[str]:
    """Validate the volumes. Return the names that containers may mount."""
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
        # A volume with an invalid name does not count as declared: its mounts get "not found" as well, as in
        # Kubernetes.
        if len(errors) == prior:
            seen.add(volume.name)
    return frozenset(seen)


def _source(errors: ErrorList, path: FieldPath, volume: core_v1.Volume) -> None:
    # The struct's order of fields is Kubernetes' order of checks. The first source counts as the volume's type, the
    # later ones are the surplus; another order would blame another field.
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
    if volume.empty_dir is not None and (limit := volume.empty_dir.size_limit) is not None and limit.sign() < 0:
        errors.forbidden(path.child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity")
    if volume.host_path is not None and ".." in volume.host_path.path.split("/"):
        errors.invalid(path.child("hostPath", "path"), volume.host_path.path, "must not contain '..'")
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
    "ephemeral": ("volumeClaimTemplate",),
}


def _value(source: Any, name: str) -> Any:
    kind: Any = type(source)
    return next(getattr(source, attribute) for attribute, known in json_names(kind).items() if known == name)


def validate_mounts(errors: ErrorList, path: FieldPath, container: core_v1.Container, volumes: Set[str]) -> None:
    """Require that every mount is of a volume of the pod, at a place of its own."""
    places: set[str] = set()
    security = container.security_context
    privileged = security is not None and bool(security.privileged)
    devices = {device.name for device in container.volume_devices}
    occupied = {device.device_path for device in container.volume_devices}
    for position, mount in enumerate(container.volume_mounts):
        where = path.index(position)
        if not mount.name:
            errors.required(where.child("name"))
        if mount.name not in volumes:
            errors.not_found(where.child("name"), mount.name)
        if not mount.mount_path:
            errors.required(where.child("mountPath"))
        if mount.mount_path in places:
            errors.invalid(where.child("mountPath"), mount.mount_path, "must be unique")
        places.add(mount.mount_path)
        if mount.name in devices:
            errors.invalid(where.child("name"), mount.name, "must not already exist in volumeDevices")
        if mount.mount_path in occupied:
            text = "must not already exist as a path in volumeDevices"
            errors.invalid(where.child("mountPath"), mount.mount_path, text)
        # Of some fields Kubernetes reports the path of the list, not of the mount.
        if mount.sub_path:
            validate_descending_path(errors, path.child("subPath"), mount.sub_path)
        if mount.sub_path_expr:
            if mount.sub_path:
                words = "subPathExpr and subPath are mutually exclusive"
                errors.invalid(where.child("subPathExpr"), mount.sub_path_expr, words)
            validate_descending_path(errors, path.child("subPathExpr"), mount.sub_path_expr)
        _propagation(errors, path, mount, privileged=privileged)


def validate_devices(
    errors: ErrorList, path: FieldPath, container: core_v1.Container, volumes: Set[str], blocks: Set[str]
) -> None:
    """Require that every device is a volume of the pod that can be a block device, at a place that no other one has."""
    names: set[str] = set()
    places: set[str] = set()
    mounted = {mount.name for mount in container.volume_mounts}
    occupied = {mount.mount_path for mount in container.volume_mounts}
    for position, device in enumerate(container.volume_devices):
        name, place = path.index(position).child("name"), path.index(position).child("devicePath")
        if not device.name:
            errors.required(name)
        if device.name in names:
            errors.invalid(name, device.name, "must be unique")
        if device.name not in volumes:
            errors.not_found(name, device.name)
        elif device.name not in blocks:
            errors.invalid(name, device.name, _NO_BLOCK)
        if not device.device_path:
            errors.required(place)
        if device.device_path in places:
            errors.invalid(place, device.device_path, "must be unique")
        if ".." in device.device_path.split("/"):
            errors.invalid(place, device.device_path, "can not contain backsteps ('..')")
        else:
            places.add(device.device_path)
        if device.name in mounted:
            errors.invalid(name, device.name, "must not already exist in volumeMounts")
        if device.device_path in occupied:
            errors.invalid(place, device.device_path, "must not already exist as a path in volumeMounts")
        names |= {device.name} - {""}


_NO_BLOCK: Final = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"


def _propagation(errors: ErrorList, path: FieldPath, mount: core_v1.VolumeMount, *, privileged: bool) -> None:
    given, where = mount.mount_propagation, path.child("mountPropagation")
    if given is not None and given not in _PROPAGATIONS:
        errors.not_supported(where, given, _PROPAGATIONS)
    if given == "Bidirectional" and not privileged:
        errors.forbidden(where, "Bidirectional mount propagation is available only to privileged containers")
    recursive, where = mount.recursive_read_only, path.child("recursiveReadOnly")
    if recursive is None or recursive == "Disabled":
        return
    if recursive not in _RECURSIVE:
        errors.not_supported(where, recursive, _RECURSIVE)
        return
    if not mount.read_only:
        errors.forbidden(where, "may only be specified when readOnly is true")
    if given not in (None, "None"):
        errors.forbidden(where, "may only be specified when mountPropagation is None or not specified")


_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def validate_descending_path(errors: ErrorList, path: FieldPath, value: str) -> None:
    """Validate a relative path without a step up."""
    if value.startswith("/"):
        errors.invalid(path, value, "must be a relative path")
    if ".." in value.split("/"):
        errors.invalid(path, value, "must not contain '..'")


_KNOWN: Final = frozenset(
    (
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.host",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    )
)
"""Fields of a pod that have a name at all; which of them can be had depends on where they go."""
ENVIRONMENT_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_UNITS: Final = ("1m", "1")
_UNITS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SHOWN: Final = {"ephemeral-storage": "local ephemeral storage"}
_HOST: Final = "spec.host"
_VERSIONS: Final = frozenset({"", "v1"})
"""Versions in which fields of pods have names. Without defaults no version may be given."""


def validate_field_reference(
    errors: ErrorList, path: FieldPath, reference: core_v1.ObjectFieldSelector, allowed: tuple[str, ...]
) -> None:
    """Validate a field of the pod that may go there, or one annotation or label."""
    where, name = path.child("fieldPath"), reference.field_path
    if not name:
        errors.required(where)
        return
    if reference.api_version not in _VERSIONS:
        errors.invalid(where, name, f"error converting fieldPath: unsupported pod version: {reference.api_version}")
        return
    # Not by a pattern: that would look for the end once for each beginning in a long text.
    field, opening, key = name.partition("['")
    if field and opening and key.endswith("']"):
        _subscript(errors, path, name, field, key[:-2])
        return
    if name not in _KNOWN:
        errors.invalid(where, name, f"error converting fieldPath: field label not supported: {name}")
        return
    # Old clients send "spec.host". Kubernetes' conversion of field labels renames it before the allowed fields are
    # compared, so it never appears in the text.
    shown = "spec.nodeName" if name == _HOST else name
    if shown not in allowed:
        errors.string_not_among(where, shown, sorted(allowed))


def _subscript(errors: ErrorList, path: FieldPath, name: str, field: str, key: str) -> None:
    if field == "metadata.annotations":
        # Kubernetes lowers the case of annotation keys here and not of label keys; the validation text shows the
        # lowered key.
        key = key.lower()
    elif field != "metadata.labels":
        errors.invalid(
            path.child("fieldPath"), name, f"error converting fieldPath: field label does not support subscript: {name}"
        )
        return
    for problem in formats.label_key(key):
        errors.invalid(path, key, problem)


def validate_resource_reference(errors: ErrorList, path: FieldPath, reference: core_v1.ResourceFieldSelector) -> None:
    """Validate a limit or a request that containers have, in units that there are."""
    _resource(errors, path.child("resource"), reference.resource)
    _divisor(errors, path.child("divisor"), reference.resource, reference.divisor)


def validate_container_resource_reference(
    errors: ErrorList, path: FieldPath, reference: core_v1.ResourceFieldSelector
) -> None:
    """Validate the same outside of a container, which has to be named there."""
    if reference.container_name:
        validate_resource_reference(errors, path, reference)
        return
    errors.required(path.child("containerName"))
    _divisor(errors, path.child("divisor"), reference.resource, reference.divisor)


def _resource(errors: ErrorList, path: FieldPath, name: str) -> None:
    if not name:
        errors.required(path)
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        errors.string_not_among(path, name, sorted(_RESOURCES))


def _divisor(errors: ErrorList, path: FieldPath, name: str, divisor: Quantity) -> None:
    if divisor == Quantity("0"):
        return
    _, _, resource = name.partition(".")
    kind = "hugepages" if name.startswith(_HUGE_PAGES) else resource if name in _RESOURCES else ""
    units = _CPU_UNITS if kind == "cpu" else _UNITS
    # The canonical text is compared, not the amount: "1024" is refused although "1Ki" is a unit.
    if kind and divisor.text not in units:
        one = " and ".join(units) if kind == "cpu" else ", ".join(units)
        shown = _SHOWN.get(kind, kind)
        errors.invalid(path, name, f"only divisor's values {one} are supported with the {shown} resource")


_MODES: Final = range(0o1000)
_MODE_TEXT: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_CONFLICT: Final = "conflicting duplicate paths"
_TOKEN_SECONDS: Final = range(600, 2**32 + 1)


def validate_files(errors: ErrorList, path: FieldPath, volume: core_v1.Volume) -> None:
    """Validate the files that a Secret, a ConfigMap or the downward API puts into a volume."""
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
        for position, source in enumerate(volume.projected.sources or ()):
            _projection(errors, where, where.child("sources").index(position), source, taken)


def _projection(
    errors: ErrorList, volume: FieldPath, path: FieldPath, source: core_v1.VolumeProjection, taken: set[str]
) -> None:
    """Validate one of several sources. ``taken`` are the paths of the sources before it. A repeated path is an error of
    the volume."""
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
    # Two files at one path of a projected volume: the kubelet would write one over the other, in an order that no one
    # chose. Empty paths are reported as required already.
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
    """Refuse a path that is not below the volume, or is one of the names that the node keeps for itself."""
    validate_descending_path(errors, path, place)
    if place.startswith("..") and not place.startswith("../"):
        errors.invalid(path, place, "must not start with '..'")
