"""The checks of the level «baseline»: known ways from a container to its node are closed.

Names, versions and texts are those of k8s.io/pod-security-admission/policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from cathedra.api.core.core_v1 import LifecycleHandler, PodSpec, Probe, SeccompProfile, SELinuxOptions
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.admission.podsecurity.violations import (
    AnyContainer,
    Check,
    Violation,
    containers,
    named,
    plural,
    quoted,
    setters,
    with_context,
)

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})
_CAPABILITIES: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)


def in_user_namespace(spec: PodSpec) -> bool:
    """Return True if the pod has a user namespace, so that its root is an unprivileged user on the node."""
    # Only an explicit «false»: an absent value means the node's own users.
    return spec.host_users is False


# Kubernetes relaxes some checks here: root in a user namespace has no rights on the node.
def relaxed(check: Check) -> Check:
    """Return a check that applies only to pods without a user namespace."""

    def checked(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
        return None if in_user_namespace(spec) else check(metadata, spec)

    return checked


def app_armor(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that AppArmor profiles are the default one or local ones."""
    own = spec.security_context.app_armor_profile if spec.security_context is not None else None
    bad: set[str] = set()
    pod = own is not None and own.type not in _PROFILES
    if own is not None and pod:
        bad.add(own.type)
    names = []
    for name, context in with_context(spec):
        if context.app_armor_profile is not None and context.app_armor_profile.type not in _PROFILES:
            names.append(name)
            bad.add(context.app_armor_profile.type)
    annotations = sorted(
        f"{key}={json.dumps(value)}"
        for key, value in metadata.annotations.items()
        # Annotations count beside the fields: nodes before 1.30 read only them.
        if key.startswith(_APPARMOR) and value and value != "runtime/default" and not value.startswith("localhost/")
    )
    who = setters(names, pod=pod)
    if annotations:
        word = plural("annotation", len(annotations))
        who = f"{who} and {word}" if who else word
    if not who:
        return None
    values = [*sorted(bad), *annotations]
    reason = plural("forbidden AppArmor profile", len(values))
    return Violation(reason, f"{who} must not set AppArmor profile type to {quoted(values)}")


def capabilities(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that only default capabilities are added."""
    names, added = [], set()
    for name, context in with_context(spec):
        found = set(context.capabilities.add) - _CAPABILITIES if context.capabilities is not None else set()
        if found:
            names.append(name)
            added |= found
    if not names:
        return None
    detail = f"{named(names)} must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def host_namespaces(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that the namespaces of the node are not shared."""
    shared = {"hostNetwork": spec.host_network, "hostPID": spec.host_pid, "hostIPC": spec.host_ipc}
    found = [f"{name}=true" for name, value in shared.items() if value]
    return Violation("host namespaces", ", ".join(found)) if found else None


def host_path_volumes(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that no directory of the node is mounted."""
    found = [volume.name for volume in spec.volumes if volume.host_path is not None]
    return Violation("hostPath volumes", f"{plural('volume', len(found))} {quoted(found)}") if found else None


def host_ports(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that no port of the node is used."""
    names, ports = [], set()
    for container in containers(spec):
        # As text: Kubernetes sorts the ports as strings.
        found = {str(port.host_port) for port in container.ports if port.host_port}
        if found:
            names.append(container.name)
            ports |= found
    if not names:
        return None
    words = f"{'uses' if len(names) == 1 else 'use'} {plural('hostPort', len(ports))}"
    return Violation("hostPort", f"{named(names)} {words} {', '.join(sorted(ports))}")


def host_probes(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that probes and lifecycle handlers connect to the pod and to no other host."""
    names, hosts = set(), set()
    for container in containers(spec):
        found = set(_asked_hosts(container))
        if found:
            names.add(container.name)
            hosts |= found
    if not names:
        return None
    words = f"{'uses' if len(names) == 1 else 'use'} {plural('probe or lifecycle host', len(hosts))}"
    return Violation("probe or lifecycle host", f"{named(sorted(names))} {words} {quoted(sorted(hosts))}")


def _asked_hosts(container: AnyContainer) -> Iterator[str]:
    asking: list[Probe | LifecycleHandler | None] = [
        container.liveness_probe,
        container.readiness_probe,
        container.startup_probe,
    ]
    if container.lifecycle is not None:
        asking += [container.lifecycle.post_start, container.lifecycle.pre_stop]
    for one in asking:
        if one is None:
            continue
        for action in (one.http_get, one.tcp_socket):
            if action is not None and action.host:
                yield action.host


def privileged(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that no container is privileged."""
    names = [name for name, context in with_context(spec) if context.privileged]
    return Violation("privileged", f"{named(names)} must not set securityContext.privileged=true") if names else None


def proc_mount(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that /proc is masked in every container."""
    found = [(name, context.proc_mount) for name, context in with_context(spec)]
    bad = [(name, mount) for name, mount in found if mount is not None and mount != "Default"]
    if not bad:
        return None
    mounts = quoted(sorted({mount for _, mount in bad}))
    return Violation(
        "procMount", f"{named([name for name, _ in bad])} must not set securityContext.procMount to {mounts}"
    )


def se_linux(*more: str) -> Check:
    """Return a check that SELinux types are those of containers or in ``more``, and user and role are not set."""
    allowed = frozenset({"", "container_t", "container_init_t", "container_kvm_t", *more})

    def is_forbidden(options: SELinuxOptions | None) -> bool:
        return options is not None and bool(options.type not in allowed or options.user or options.role)

    def checked(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
        own = spec.security_context.se_linux_options if spec.security_context is not None else None
        given = [(name, context.se_linux_options) for name, context in with_context(spec)]
        names = [name for name, options in given if is_forbidden(options)]
        who = setters(names, pod=is_forbidden(own))
        if not who:
            return None
        # The text names all values, also those of containers that are allowed by themselves.
        everything = [options for options in (own, *(options for _, options in given)) if options is not None]
        kinds = sorted({options.type for options in everything} - allowed)
        data = [f"{plural('type', len(kinds))} {quoted(kinds)}"] if kinds else []
        data += ["user may not be set"] if any(options.user for options in everything) else []
        data += ["role may not be set"] if any(options.role for options in everything) else []
        return Violation("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")

    return checked


def seccomp_annotations(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that seccomp is not switched off by the annotations that were used before 1.19."""
    keys = (_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{container.name}" for container in containers(spec)))
    found = {key: metadata.annotations[key] for key in keys if key in metadata.annotations}
    bad = sorted(
        f"{key}={json.dumps(value)}"
        for key, value in found.items()
        if value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    return Violation("seccompProfile", f"forbidden {plural('annotation', len(bad))} {', '.join(bad)}") if bad else None


def seccomp(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that seccomp is not switched off by the security contexts."""
    return forbidden_seccomp(spec)


def forbidden_seccomp(spec: PodSpec) -> Violation | None:
    """Return the forbidden ones of the named profiles."""

    def is_forbidden(profile: SeccompProfile | None) -> bool:
        return profile is not None and profile.type not in _PROFILES

    own = spec.security_context.seccomp_profile if spec.security_context is not None else None
    given = [(name, context.seccomp_profile) for name, context in with_context(spec)]
    who = setters([name for name, profile in given if is_forbidden(profile)], pod=is_forbidden(own))
    if not who:
        return None
    values = sorted({one.type for one in (own, *(p for _, p in given)) if one is not None} - _PROFILES)
    return Violation("seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {quoted(values)}")


def sysctls(*more: str) -> Check:
    """Return a check that sysctls are those that affect only the pod, or in ``more``."""
    allowed = frozenset(
        {
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
            *more,
        }
    )

    def checked(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
        given = spec.security_context.sysctls if spec.security_context is not None else ()
        found = [one.name for one in given if one.name not in allowed]
        return Violation("forbidden sysctls", ", ".join(found)) if found else None

    return checked


def windows_host_process(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that no container runs as a process of a Windows node."""
    own = spec.security_context.windows_options if spec.security_context is not None else None
    names = [
        name
        for name, context in with_context(spec)
        if context.windows_options is not None and context.windows_options.host_process
    ]
    who = setters(names, pod=own is not None and bool(own.host_process))
    if not who:
        return None
    return Violation("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")
