"""Release, feature gates and served versions of a cluster that is read.

An API server names its release at ``/version``, its versions in discovery, and its feature gates in the metric
``kubernetes_feature_enabled``. If it does not, the defaults of the release are assumed, together with the gates that
its kinds need, and a note names the assumption. Gates that the user sets win over all others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Node
from cathedra.insight.reading.state import ASSUMED, Note
from cathedra.releases import DEFAULT_RELEASE, RELEASES, FeatureGates, state_of
from cathedra.releases.served import lifetime
from cathedra.releases.table import nearest_release

GROUP: Final = "resource.k8s.io"
NO_GATES: Final[Mapping[str, bool]] = MappingProxyType({})
_METRIC: Final = re.compile(
    rb'^kubernetes_feature_enabled\{[^}\n]*?name="([A-Za-z0-9]+)"[^}\n]*\} ([01])(?:\.0)?\s*$', re.MULTILINE
)
_IMPLIED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("resourceclaims", "resourceclaimtemplates", "deviceclasses", "resourceslices"), ("DynamicResourceAllocation",)
    ),
    "devicetaintrules": ("DRADeviceTaints", "DRADeviceTaintRules"),
    "workloads": ("GenericWorkload",),
    "podgroups": ("GenericWorkload",),
    "compositepodgroups": ("GenericWorkload", "CompositePodGroup"),
}
"""Resource → the gates that are on in a server that has it."""


class RequestedRelease(msgspec.Struct, frozen=True):
    """Release and gates that the user requests; the others are read or assumed."""

    release: str = ""
    """The release; "": the cluster's own."""
    gates: Mapping[str, bool] = NO_GATES
    """The gates that differ from it, as of ``--feature-gates``."""


def reported_gates(metrics: bytes) -> dict[str, bool]:
    """Return the feature gates in the metrics of a Kubernetes component; empty if it reports none."""
    return {name.decode(): on == b"1" for name, on in _METRIC.findall(metrics)}


def live_gates(
    requested: RequestedRelease, resources: Collection[str], reported: Mapping[str, bool], problem: str
) -> tuple[FeatureGates, tuple[Note, ...]]:
    """Return the gates of a server, and the note on what was assumed.

    ``resources`` are those that it has; ``reported`` are the gates that it reports. If there are none, ``problem`` is
    the reason.

    Raises:
        UnknownGate: the release is not known, or the user names a gate that it does not have.
    """
    release = requested.release
    gates = FeatureGates.for_release(release, requested.gates)
    named = {*requested.gates, *gates.overrides()}
    if reported:
        return gates.with_reported({gate: on for gate, on in reported.items() if gate not in named}), ()
    found, implied = _with_implied(gates, named, resources)
    if requested.gates:
        return found, ()
    text = (
        f"assumed: the default feature gates of Kubernetes {release}{implied}, for the server reports none ({problem})"
    )
    return found, (Note("featuregates", ASSUMED, f"{text}; see --feature-gates"),)


def dumped_gates(
    requested: RequestedRelease, nodes: Iterable[Node], api_versions: Collection[str], resources: Collection[str]
) -> tuple[FeatureGates, tuple[Note, ...]]:
    """Return the gates of a dump, and the note on what was assumed.

    A dump names no release. That of its newest kubelet is assumed, or the first with the versions of its objects, if
    that is newer: kubelets may be older than their API server.

    Raises:
        UnknownGate: the release is not known, or the user names a gate that it does not have.
    """
    kubelets = {one.status.node_info.kubelet_version for one in nodes} - {""}
    known = [release for version in kubelets if (release := nearest_release(version))]
    versions = [one.partition("/")[2] for one in api_versions if one.startswith(f"{GROUP}/")]
    since = [life.since for version in versions if (life := lifetime(GROUP, version, "ResourceClaim")) is not None]
    release = requested.release or (max((*known, *since), key=RELEASES.index) if known else DEFAULT_RELEASE)
    gates = FeatureGates.for_release(release, requested.gates)
    found, implied = _with_implied(gates, {*requested.gates, *gates.overrides()}, resources)
    if requested.release:
        return found, ()
    origin = " of the kubelets" if known else ""
    text = f"assumed: Kubernetes {release}{origin} and its default feature gates{implied}"
    return found, (Note("release", ASSUMED, f"{text} (--kubernetes-version, --feature-gates)"),)


def _with_implied(gates: FeatureGates, named: Collection[str], resources: Collection[str]) -> tuple[FeatureGates, str]:
    """Switch on the gates that kinds need, unless they are ``named``; and return a clause on those that were off."""
    needed = dict.fromkeys(gate for resource, needs in _IMPLIED.items() if resource in resources for gate in needs)
    off = [gate for gate in needed if gate not in named and state_of(gate, gates.release) and not gates[gate]]
    return gates.with_reported(dict.fromkeys(off, True)), f" with {', '.join(off)} on" if off else ""
