"""API versions that each release serves, deprecates and removes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from cathedra.releases.table import order

T = TypeVar("T")


class Lifetime(msgspec.Struct, frozen=True):
    """The releases of one API version of a kind: the first, the first that deprecates it, and the first without it."""

    since: str
    deprecated: str = ""
    removed: str = ""
    replaced: bool = False
    """Warnings name v1 as the version to use instead."""

    def covers(self, release: str) -> bool:
        """Return True if the release has the version."""
        begun = order(release) >= order(self.since)
        return begun and not (self.removed and order(release) >= order(self.removed))


_RESOURCE: Final = "resource.k8s.io"
_ANY: Final = ""
_MUTATING: Final[Mapping[str, Lifetime]] = {
    "v1": Lifetime("1.36"),
    "v1beta1": Lifetime("1.34", deprecated="1.37", removed="1.40", replaced=True),
    "v1alpha1": Lifetime("1.32", deprecated="1.35", removed="1.38"),
}
SERVED: Final[Mapping[tuple[str, str], Mapping[str, Lifetime]]] = {
    (_RESOURCE, _ANY): {
        "v1": Lifetime("1.34"),
        "v1beta2": Lifetime("1.33", deprecated="1.36", removed="1.39"),
        "v1beta1": Lifetime("1.32", deprecated="1.35", removed="1.38"),
        "v1alpha3": Lifetime("1.31", removed="1.34"),
    },
    (_RESOURCE, "DeviceTaintRule"): {
        "v1": Lifetime("1.37"),
        "v1beta2": Lifetime("1.36", deprecated="1.39", removed="1.42"),
        "v1alpha3": Lifetime("1.33", deprecated="1.36", removed="1.39"),
    },
    (_RESOURCE, "ResourcePoolStatusRequest"): {
        "v1alpha3": Lifetime("1.36", deprecated="1.39", removed="1.42"),
    },
    ("scheduling.k8s.io", "Workload"): {
        "v1beta1": Lifetime("1.37"),
        "v1alpha3": Lifetime("1.37"),
        "v1alpha2": Lifetime("1.36", removed="1.37"),
    },
    ("scheduling.k8s.io", "CompositePodGroup"): {
        "v1alpha3": Lifetime("1.37"),
    },
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _MUTATING,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _MUTATING,
    ("authentication.k8s.io", "SelfSubjectReview"): {
        "v1": Lifetime("1.28"),
        "v1beta1": Lifetime("1.27", deprecated="1.30", removed="1.33"),
        "v1alpha1": Lifetime("1.26", deprecated="1.29", removed="1.32"),
    },
}
"""(group, kind) → version → its releases, newest version first. Kinds that every release serves alike are not listed.

The source is the ``+k8s:prerelease-lifecycle-gen`` tags in ``types.go``, and ``storage_*.go`` of the group.
"""

_DEVICE_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "1.26": ("v1beta1", "v1alpha3"),
    "1.33": ("v1beta1", "v1beta2", "v1alpha3"),
    "1.34": ("v1beta2", "v1", "v1beta1"),
    "1.35": ("v1", "v1beta2", "v1beta1"),
    "1.38": ("v1", "v1beta2"),
}
"""First release → versions of resource.k8s.io in order of preference, the storage version first.

Releases before 1.32 have kinds of their own (`cathedra.classic`), which take from these what they share.
"""

_DOCUMENTED_VERSION: Final[Mapping[str, str]] = {
    "1.26": "v1alpha1",
    "1.27": "v1alpha2",
    "1.31": "v1alpha3",
    "1.32": "v1beta1",
    "1.34": "v1",
}
"""First release → the version of resource.k8s.io that its documentation switches on."""


_REGISTERED: Final[Mapping[str, Mapping[str, Lifetime | None]]] = {
    "": {"v1": None},
    "admission.k8s.io": {"v1": None, "v1beta1": None},
    "admissionregistration.k8s.io": {"v1": None, "v1alpha1": None, "v1beta1": None},
    "apiextensions.k8s.io": {"v1": None, "v1beta1": None},
    "apiregistration.k8s.io": {"v1": None, "v1beta1": None},
    "apps": {"v1": None, "v1beta1": None, "v1beta2": None},
    "authentication.k8s.io": {"v1": None, "v1alpha1": None, "v1beta1": None},
    "authorization.k8s.io": {"v1": None, "v1beta1": None},
    "autoscaling": {
        "v1": None,
        "v2": None,
        "v2beta1": Lifetime("1.26", removed="1.36"),
        "v2beta2": Lifetime("1.26", removed="1.36"),
    },
    "batch": {"v1": None, "v1beta1": None},
    "certificates.k8s.io": {"v1": None, "v1alpha1": Lifetime("1.27"), "v1beta1": None},
    "coordination.k8s.io": {
        "v1": None,
        "v1alpha1": Lifetime("1.31", removed="1.32"),
        "v1alpha2": Lifetime("1.32"),
        "v1beta1": None,
    },
    "discovery.k8s.io": {"v1": None, "v1beta1": None},
    "events.k8s.io": {"v1": None, "v1beta1": None},
    "extensions": {"v1beta1": None},
    "flowcontrol.apiserver.k8s.io": {
        "v1": Lifetime("1.29"),
        "v1alpha1": Lifetime("1.26", removed="1.29"),
        "v1beta1": None,
        "v1beta2": None,
        "v1beta3": None,
    },
    "imagepolicy.k8s.io": {"v1alpha1": None},
    "internal.apiserver.k8s.io": {"v1alpha1": None},
    "lifecycle.k8s.io": {"v1alpha1": Lifetime("1.37")},
    "networking.k8s.io": {"v1": None, "v1alpha1": Lifetime("1.26", removed="1.34"), "v1beta1": None},
    "node.k8s.io": {"v1": None, "v1alpha1": None, "v1beta1": None},
    "policy": {"v1": None, "v1beta1": None},
    "rbac.authorization.k8s.io": {"v1": None, "v1alpha1": None, "v1beta1": None},
    _RESOURCE: {
        "v1": Lifetime("1.34"),
        "v1alpha1": Lifetime("1.26", removed="1.27"),
        "v1alpha2": Lifetime("1.27", removed="1.31"),
        "v1alpha3": Lifetime("1.31"),
        "v1beta1": Lifetime("1.32"),
        "v1beta2": Lifetime("1.33"),
    },
    "scheduling.k8s.io": {
        "v1": None,
        "v1alpha1": Lifetime("1.26", removed="1.36"),
        "v1alpha2": Lifetime("1.36", removed="1.37"),
        "v1alpha3": Lifetime("1.37"),
        "v1beta1": None,
    },
    "storage.k8s.io": {"v1": None, "v1alpha1": None, "v1beta1": None},
    "storagemigration.k8s.io": {
        "v1": Lifetime("1.37"),
        "v1alpha1": Lifetime("1.30", removed="1.35"),
        "v1beta1": Lifetime("1.35"),
    },
}
"""Group → version → the releases whose kube-apiserver knows its types, served or not; None: every release.

The source is ``x-kubernetes-group-version-kind`` of ``DeleteOptions`` in ``api/openapi-spec/swagger.json``.
"""


def registered_group_versions(release: str) -> list[tuple[str, str]]:
    """Return the groups and versions whose types kube-apiserver knows in a release, whether it serves them or not."""
    return [
        (group, version)
        for group, known in _REGISTERED.items()
        for version, releases in known.items()
        if releases is None or releases.covers(release)
    ]


def versions(release: str, group: str, kind: str) -> tuple[str, ...]:
    """Return the versions of a kind that a release has, newest first; empty if the release does not have the kind.

    Raises:
        KeyError: the kind is not listed.
    """
    return tuple(version for version, releases in SERVED[group, kind].items() if releases.covers(release))


def lifetime(group: str, version: str, kind: str) -> Lifetime | None:
    """Return the releases of a version, or None if every release has it."""
    listed = SERVED.get((group, kind)) or SERVED.get((group, _ANY)) or {}
    return listed.get(version)


def deprecation_warning(release: str, group: str, version: str, kind: str) -> str:
    """Return the warning that a release gives for requests in a deprecated version, or ""."""
    releases = lifetime(group, version, kind)
    if releases is None or not releases.deprecated or order(release) < order(releases.deprecated):
        return ""
    instead = f"; use {group}/v1 {kind}" if releases.replaced else ""
    life = f"is deprecated in v{releases.deprecated}+, unavailable in v{releases.removed}+"
    return f"{group}/{version} {kind} {life}{instead}"


def device_versions(release: str) -> tuple[str, ...]:
    """Return the versions of resource.k8s.io for claims, templates, classes and slices, in order of preference."""
    return _latest(_DEVICE_VERSIONS, release)


def documented_device_version(release: str) -> str:
    """Return the version of resource.k8s.io that the documentation of the release switches on."""
    return _latest(_DOCUMENTED_VERSION, release)


def _latest(table: Mapping[str, T], release: str) -> T:
    return [value for first, value in table.items() if order(first) <= order(release)][-1]
