"""The checks of the level «restricted», which requires that a pod is hardened.

Names, versions and texts are those of k8s.io/pod-security-admission/policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cathedra.api.core.core_v1 import PodSpec, SecurityContext, Volume
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.admission.podsecurity.baseline import forbidden_seccomp
from cathedra.apiserver.admission.podsecurity.violations import (
    Check,
    Violation,
    containers,
    named,
    plural,
    quoted,
    setters,
    with_context,
)

_BIND: Final = "NET_BIND_SERVICE"
_ALLOWED_VOLUMES: Final = (
    *("config_map", "csi", "downward_api", "empty_dir", "ephemeral", "image", "persistent_volume_claim"),
    *("projected", "secret"),
)
_OTHER_VOLUMES: Final[Mapping[str, str]] = {
    "host_path": "hostPath",
    "gce_persistent_disk": "gcePersistentDisk",
    "aws_elastic_block_store": "awsElasticBlockStore",
    "git_repo": "gitRepo",
    "nfs": "nfs",
    "iscsi": "iscsi",
    "glusterfs": "glusterfs",
    "rbd": "rbd",
    "flex_volume": "flexVolume",
    "cinder": "cinder",
    "cephfs": "cephfs",
    "flocker": "flocker",
    "fc": "fc",
    "azure_file": "azureFile",
    "vsphere_volume": "vsphereVolume",
    "quobyte": "quobyte",
    "azure_disk": "azureDisk",
    "photon_persistent_disk": "photonPersistentDisk",
    "portworx_volume": "portworxVolume",
    "scale_io": "scaleIO",
    "storageos": "storageos",
}


def not_on_windows(check: Check) -> Check:
    """Return the check with an exemption for pods for Windows, which cannot have the field."""

    def checked(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
        return None if spec.os is not None and spec.os.name == "windows" else check(metadata, spec)

    return checked


def no_escalation(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """No process gets more rights than its parent."""
    contexts = dict(with_context(spec))
    names = [
        container.name
        for container in containers(spec)
        if contexts.get(container.name, SecurityContext()).allow_privilege_escalation is not False
    ]
    if not names:
        return None
    detail = f"{named(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def capabilities(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that containers drop all capabilities, and add none but the one to listen on low ports."""
    keeping, adding, added = [], [], set()
    for container in containers(spec):
        given = container.security_context.capabilities if container.security_context is not None else None
        if given is None or "ALL" not in given.drop:
            keeping.append(container.name)
        found = set(given.add) - {_BIND} if given is not None else set()
        if found:
            adding.append(container.name)
            added |= found
    details = []
    if keeping:
        details.append(f'{named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(f"{named(adding)} must not include {quoted(sorted(added))} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def volumes(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Volumes come from the cluster's own objects, from claims or from CSI drivers."""
    bad = [volume for volume in spec.volumes if all(getattr(volume, name) is None for name in _ALLOWED_VOLUMES)]
    if not bad:
        return None
    kinds = sorted({_kind(volume) for volume in bad})
    detail = (
        f"{plural('volume', len(bad))} {quoted(volume.name for volume in bad)} {'uses' if len(bad) == 1 else 'use'} "
        f"{plural('restricted volume type', len(kinds))} {quoted(kinds)}"
    )
    return Violation("restricted volume types", detail)


def _kind(volume: Volume) -> str:
    return next((shown for name, shown in _OTHER_VOLUMES.items() if getattr(volume, name) is not None), "unknown")


def run_as_non_root(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Check that containers, or their pod for them, set ``runAsNonRoot``."""
    own = spec.security_context.run_as_non_root if spec.security_context is not None else None
    said = {name: context.run_as_non_root for name, context in with_context(spec)}
    reason = "runAsNonRoot != true"
    who = setters([one.name for one in containers(spec) if said.get(one.name) is False], pod=own is False)
    if who:
        return Violation(reason, f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [one.name for one in containers(spec) if said.get(one.name) is None and not own]
    if silent:
        return Violation(reason, f"pod or {named(silent)} must set securityContext.runAsNonRoot=true")
    return None


def run_as_user(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Nothing runs as user 0."""
    own = spec.security_context.run_as_user if spec.security_context is not None else None
    names = [name for name, context in with_context(spec) if context.run_as_user == 0]
    who = setters(names, pod=own == 0)
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def seccomp(metadata: ObjectMeta, spec: PodSpec) -> Violation | None:
    """Containers name a seccomp profile, or their pod does."""
    forbidden = forbidden_seccomp(spec)
    if forbidden is not None:
        return forbidden
    if spec.security_context is not None and spec.security_context.seccomp_profile is not None:
        return None
    given = {name for name, context in with_context(spec) if context.seccomp_profile is not None}
    silent = [container.name for container in containers(spec) if container.name not in given]
    if not silent:
        return None
    detail = f'pod or {named(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", detail)
