"""How an API server is set up: release, gates, versions; a value that is made once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from cathedra.apiserver.authentication.pki import KubeletTLS
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.pipeline.audit import AuditPolicy
from cathedra.apiserver.pipeline.flowcontrol import SEATS
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import DEFAULT_RELEASE, FeatureGates

__all__ = ["ServeOptions", "ServerConfig"]


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be chosen about an API server."""

    release: str = DEFAULT_RELEASE
    """The Kubernetes release whose behaviour and version number it shows."""
    gates: FeatureGates | None = None
    """None: the defaults of the release."""
    runtime_config: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """``group/version`` → served or not, over the release's defaults."""
    definitions: tuple[AnyDefinition, ...] | None = None
    """None: every built-in kind."""
    authorization: bool = False
    """Whether RBAC and the node authorizer decide; without, every authenticated user may do everything."""
    service_accounts: bool = False
    """Whether pods are refused whose service account does not exist (plugin ServiceAccount). For servers whose
    controllers give every namespace its account ``default``."""
    node_lifecycle: bool = False
    """Whether nodes are made with the taint ``node.kubernetes.io/not-ready`` (plugin TaintNodesByCondition). For those
    servers whose controllers take it away from ready nodes."""

    max_requests_inflight: int = SEATS
    """Requests that are worked on at the same time; more wait their turn, a queue per user."""
    audit_log: Path | None = None
    """Where requests are written down, a JSON line each; None: nowhere."""
    audit_policy: AuditPolicy = msgspec.field(default_factory=AuditPolicy)
    """Which requests, and how much of them."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how the server can be reached."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any free one."""
    pki: Path | None = None
    """Folder of the certificates, made if missing; None serves plain HTTP."""
    kubelet: KubeletTLS | None = None
    """How nodes are reached; None: with the certificates of ``pki``, or in plain HTTP without one."""
    names: tuple[str, ...] = ()
    """Host names and addresses of the server's certificate; without any those of ``host`` and the loopback."""
    advertised: str = ""
    """The address under which others reach the server, in its URL and in Service ``default/kubernetes``; without one
    there is no such Service."""
    client_authority: Path | None = None
    """PEM file of authorities whose client certificates are taken beside those of ``pki``."""
    tokens: Mapping[str, UserInfo] = msgspec.field(default_factory=dict)
    """Static bearer tokens."""
    anonymous: frozenset[str] | None = None
    """The paths on which requests without credentials are those of ``system:anonymous``; None: all. On others they are
    refused."""
