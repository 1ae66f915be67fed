"""How an API server is set up: release, gates, versions; a value that is made once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cathedra.api.definition import ResourceDefinition
from cathedra.api.gates import FeatureGates

__all__ = ["ServerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Everything that can be chosen about an API server."""

    release: str = "1.37"
    """The Kubernetes release whose behaviour and version number it shows."""
    gates: FeatureGates | None = None
    """None: the defaults of the release."""
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    """``group/version`` → served or not, over the release's defaults."""
    definitions: tuple[ResourceDefinition[Any], ...] | None = None
    """None: every built-in kind."""
    authorization: bool = False
    """Whether RBAC and the node authorizer decide; without, everybody who is known may do everything."""
