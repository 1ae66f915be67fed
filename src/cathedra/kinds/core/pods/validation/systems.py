"""Rules of the operating system that a pod names: what belongs to the other one may not be set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import json_names

__all__ = ["validate_system"]

_SYSTEMS: Final = ("linux", "windows")
_NOT_WINDOWS: Final = "cannot be set for a windows pod"
_NOT_LINUX: Final = "windows options cannot be set for a linux pod"
_PODS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "shareProcessNamespace",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
"""Fields of pods that Windows has not; those that stand in the spec itself among them."""
_OF_SPEC: Final = frozenset({"hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"})
_BY_VALUE: Final = frozenset({"hostPID", "hostIPC", "sysctls", "supplementalGroups"})
"""Those that are off or empty when they are not set."""
_CONTAINERS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def validate_system(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    """The system is one that there is, and nothing is set that it has not."""
    if spec.os is None:
        return
    name = spec.os.name
    if not name:
        errors.required(path.child("os", "name"))
    elif name not in _SYSTEMS:
        errors.not_supported(path.child("os"), name, _SYSTEMS)
    elif name == "linux":
        _linux(errors, path, spec)
    else:
        _windows(errors, path, spec)


def _linux(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    if spec.security_context is not None and spec.security_context.windows_options is not None:
        errors.forbidden(path.child("securityContext", "windowsOptions"), _NOT_LINUX)
    for where, context in _contexts(path, spec):
        if context.windows_options is not None:
            errors.forbidden(where.child("windowsOptions"), _NOT_LINUX)


def _windows(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    for name in _PODS:
        of_spec = name in _OF_SPEC
        if _is_set(spec if of_spec else spec.security_context, name):
            errors.forbidden(path.child(name) if of_spec else path.child("securityContext", name), _NOT_WINDOWS)
    for where, context in _contexts(path, spec):
        for name in _CONTAINERS:
            if _is_set(context, name):
                errors.forbidden(where.child(name), _NOT_WINDOWS)


def _contexts(path: FieldPath, spec: core_v1.PodSpec) -> Iterator[tuple[FieldPath, core_v1.SecurityContext]]:
    groups: tuple[tuple[str, Sequence[core_v1.Container | core_v1.EphemeralContainer]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    for name, containers in groups:
        for position, container in enumerate(containers):
            if container.security_context is not None:
                yield path.child(name).index(position).child("securityContext"), container.security_context


def _is_set(of: Any, name: str) -> bool:
    if of is None:
        return False
    kind: Any = type(of)
    attribute = next(attribute for attribute, known in json_names(kind).items() if known == name)
    value = getattr(of, attribute)
    return bool(value) if name in _BY_VALUE else value is not None
