"""Rules of security contexts, and of fields that the pod's operating system does not have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import json_names, to_dict
from cathedra.kinds.core.pods.validation._volumes import validate_descending_path
from cathedra.semantics.pods import containers_at

_IDS: Final = range(2**31)
_ID_TEXT: Final = "must be between 0 and 2147483647, inclusive"
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_LONGEST_PROFILE: Final = 4095
_CHANGE_POLICIES: Final = ("Always", "OnRootMismatch")
_GROUP_POLICIES: Final = ("Merge", "Strict")
_LABEL_POLICIES: Final = ("MountOption", "Recursive")
_MOUNTS: Final = ("Default", "Unmasked")
_LONGEST_SYSCTL: Final = 253
_SYSCTL_REGEX: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL: Final = re.compile(_SYSCTL_REGEX)
_OF_IPC: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_OF_NETWORK: Final = ("net.",)


def validate_pod_security(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    """Require users and groups that exist, sysctls of the pod's own namespaces, profiles that are named."""
    context = spec.security_context
    if context is None:
        return
    _ids(
        errors,
        path,
        ("fsGroup", context.fs_group),
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
    )
    for position, group in enumerate(context.supplemental_groups):
        if group not in _IDS:
            errors.invalid(path.child("supplementalGroups").index(position), group, _ID_TEXT)
    if spec.share_process_namespace and spec.host_pid:
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.invalid(path.child("shareProcessNamespace"), True, text)
    _host_users(errors, path, spec)
    _sysctls(errors, path.child("sysctls"), spec, context.sysctls)
    _choice(errors, path.child("fsGroupChangePolicy"), context.fs_group_change_policy, _CHANGE_POLICIES)
    _seccomp(errors, path.child("seccompProfile"), context.seccomp_profile)
    _app_armor(errors, path.child("appArmorProfile"), context.app_armor_profile)
    _choice(errors, path.child("supplementalGroupsPolicy"), context.supplemental_groups_policy, _GROUP_POLICIES)
    _choice(errors, path.child("seLinuxChangePolicy"), context.se_linux_change_policy, _LABEL_POLICIES)


def validate_container_security(
    errors: ErrorList, path: FieldPath, context: core_v1.SecurityContext | None, *, own_users: bool
) -> None:
    """Validate the security context of a container. ``own_users`` is True if its pod has a user namespace (hostUsers is
    false)."""
    if context is None:
        return
    _ids(errors, path, ("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group))
    mount = context.proc_mount
    _choice(errors, path.child("procMount"), mount, _MOUNTS)
    if mount == "Unmasked" and not own_users:
        errors.invalid(path.child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`")
    _seccomp(errors, path.child("seccompProfile"), context.seccomp_profile)
    if context.allow_privilege_escalation is False:
        if context.privileged:
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.invalid(path, to_dict(context), text)
        added = context.capabilities.add if context.capabilities is not None else ()
        if "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.invalid(path, to_dict(context), text)
    _app_armor(errors, path.child("appArmorProfile"), context.app_armor_profile)


def _ids(errors: ErrorList, path: FieldPath, *given: tuple[str, int | None]) -> None:
    for name, value in given:
        if value is not None and value not in _IDS:
            errors.invalid(path.child(name), value, _ID_TEXT)


def _choice(errors: ErrorList, path: FieldPath, value: str | None, known: Collection[str]) -> None:
    if value is not None and value not in known:
        errors.not_supported(path, value, known)


def _host_users(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    """Refuse the node's namespaces for a pod with users of its own."""
    if spec.host_users is not False:
        return
    shared = (("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc))
    for name, value in shared:
        if value:
            errors.forbidden(path.child(name), "when `hostUsers` is false")


def _sysctls(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec, sysctls: Iterable[core_v1.Sysctl]) -> None:
    seen: set[str] = set()
    for position, sysctl in enumerate(sysctls):
        name, where = sysctl.name, path.index(position).child("name")
        if not name:
            errors.required(where)
        elif len(name) > _LONGEST_SYSCTL or not _SYSCTL.fullmatch(name):
            text = f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL_REGEX}"
            errors.invalid(where, name, text)
        elif name in seen:
            errors.duplicate(where, name)
        dotted = name.replace("/", ".")
        if spec.host_network and dotted.startswith(_OF_NETWORK):
            errors.invalid(where, name, "may not be set with 'hostNetwork' enabled")
        if spec.host_ipc and dotted.startswith(_OF_IPC):
            errors.invalid(where, name, "may not be set with 'hostIPC' enabled")
        seen.add(name)


def _seccomp(errors: ErrorList, path: FieldPath, profile: core_v1.SeccompProfile | None) -> None:
    if profile is None:
        return
    local = path.child("localhostProfile")
    if not profile.type:
        errors.required(path.child("type"), "type is required when seccompProfile is set")
    else:
        _choice(errors, path.child("type"), profile.type, _PROFILES)
    if profile.type != "Localhost":
        # Kubernetes shows the whole profile for seccomp but only the name for AppArmor; clients match on these texts.
        if profile.localhost_profile is not None:
            errors.invalid(local, to_dict(profile), "can only be set when seccomp type is Localhost")
    elif profile.localhost_profile is None:
        errors.required(local, "must be set when seccomp type is Localhost")
    else:
        validate_descending_path(errors, local, profile.localhost_profile)


def _app_armor(errors: ErrorList, path: FieldPath, profile: core_v1.AppArmorProfile | None) -> None:
    if profile is None:
        return
    local, name = path.child("localhostProfile"), profile.localhost_profile
    if not profile.type:
        errors.required(path.child("type"), "type is required when appArmorProfile is set")
    else:
        _choice(errors, path.child("type"), profile.type, _PROFILES)
    if profile.type != "Localhost":
        if name is not None and profile.type in _PROFILES:
            errors.invalid(local, name, "can only be set when AppArmor type is Localhost")
    elif name is None or not name.strip():
        errors.required(local, "must be set when AppArmor type is Localhost")
    elif name != name.strip():
        errors.invalid(local, name, "must not be padded with whitespace")
    elif len(name) > _LONGEST_PROFILE:
        errors.too_long(local, _LONGEST_PROFILE)


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
    """Require that the system is one that there is, and nothing is set that it has not."""
    if spec.os is None:
        return
    name = spec.os.name
    if not name:
        errors.required(path.child("os", "name"))
    # Kubernetes reports the missing name at "os.name" and the unknown name at "os". The two paths differ on purpose
    # here.
    elif name not in _SYSTEMS:
        errors.not_supported(path.child("os"), name, _SYSTEMS)
    elif name == "linux":
        _linux(errors, path, spec)
    else:
        _windows(errors, path, spec)


def _linux(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    if spec.security_context is not None and spec.security_context.windows_options is not None:
        errors.forbidden(path.child("securityContext", "windowsOptions"), _NOT_LINUX)
    for where, container in containers_at(path, spec):
        if container.security_context is not None and container.security_context.windows_options is not None:
            errors.forbidden(where.child("securityContext", "windowsOptions"), _NOT_LINUX)


def _windows(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    for name in _PODS:
        of_spec = name in _OF_SPEC
        if _is_set(spec if of_spec else spec.security_context, name):
            errors.forbidden(path.child(name) if of_spec else path.child("securityContext", name), _NOT_WINDOWS)
    for where, container in containers_at(path, spec):
        for name in _CONTAINERS:
            if _is_set(container.security_context, name):
                errors.forbidden(where.child("securityContext", name), _NOT_WINDOWS)


def _is_set(of: Any, name: str) -> bool:
    if of is None:
        return False
    kind: Any = type(of)
    attribute = next(attribute for attribute, known in json_names(kind).items() if known == name)
    value = getattr(of, attribute)
    return bool(value) if name in _BY_VALUE else value is not None
