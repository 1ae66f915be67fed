"""API versions that the cluster of a state serves: the rule for manifests, and for the server of a simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.reading.features import GROUP
from cathedra.insight.reading.state import ClusterState
from cathedra.releases import state_of
from cathedra.releases.served import device_versions
from cathedra.releases.served import versions as served_in

__all__ = ["served_check", "served_versions"]

_GROUPS: Final = "scheduling.k8s.io"


def served_check(state: ClusterState) -> Callable[[GroupVersionKind], bool]:
    """Return a function that returns True for the versions of kinds that the cluster serves."""
    # start-up time: few commands read manifests
    from cathedra.apiserver.catalog import served_definitions
    from cathedra.kinds.served import all_definitions

    gates = state.gates
    served = {
        (definition.group, version.name, definition.kind)
        for definition in served_definitions(all_definitions(gates), gates, served_versions(state))
        for version in definition.versions
    }
    return lambda gvk: (gvk.group, gvk.version, gvk.kind) in served


def served_versions(state: ClusterState) -> dict[str, bool]:
    """Return the versions that a server like the cluster's has: those of the cluster, as far as they are known.

    If DynamicResourceAllocation is on, some version of its group is served, or nothing could be allocated. If
    GenericWorkload is on, pod groups are served too, unless the cluster is known to lack them: without them their pods
    would wait for ever.
    """
    served = dict(state.served)
    release = state.gates.release
    versions = device_versions(release)
    if not any(served.get(f"{GROUP}/{version}") for version in versions):
        gate = state_of("DynamicResourceAllocation", release)
        if gate is not None and not gate.default and state.gates["DynamicResourceAllocation"]:
            served |= {f"{GROUP}/{version}": True for version in versions}
    groups = [f"{_GROUPS}/{version}" for version in served_in(release, _GROUPS, "Workload")]
    # A cluster may have the gate without the API. Its jobs then fail, and those of the copy must fail too.
    lacking = bool(groups) and all(served.get(one) is False for one in groups)
    if state.gates["GenericWorkload"] and not lacking:
        served |= dict.fromkeys(groups, True)
    return served
