"""Options of a cluster: the arguments of the marker and of the fixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cathedra.cluster.config import InvalidOption
from cathedra.releases import DEFAULT_RELEASE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The options of a cluster in a test; they mean what those of ``cathedra up`` mean."""

    nodes: int = 1
    """Number of nodes, named ``node-0``, ``node-1`` …"""
    profile: str = ""
    """Profile of the nodes: a name or a file; "" for the devices of the example driver."""
    gpus: int = 8
    """Devices of the example driver on each node."""
    kubernetes_version: str = DEFAULT_RELEASE
    feature_gates: Mapping[str, bool] = field(default_factory=dict)

    @staticmethod
    def of(given: Mapping[str, Any]) -> ClusterOptions:
        """Return the options of these names.

        Raises:
            InvalidOption: there is no option of a name.
        """
        known = [one.name for one in fields(ClusterOptions)]
        for name in given:
            if name not in known:
                raise InvalidOption(f"dra_cluster has no option {name!r}; it has {', '.join(known)}")
        return ClusterOptions(**given)
