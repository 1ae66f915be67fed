"""The configuration of an API server: release, gates, versions. It is a value that does not change."""

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


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an API server."""

    release: str = DEFAULT_RELEASE
    """The Kubernetes release whose behaviour and version number it has."""
    gates: FeatureGates | None = None
    """The feature gates; None: the defaults of the release."""
    runtime_config: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """Served versions that differ from the defaults of the release: ``group/version`` → served or not."""
    definitions: tuple[AnyDefinition, ...] | None = None
    """The served kinds; None: every built-in kind."""
    authorization: bool = False
    """True if RBAC and the node authorizer decide. Otherwise every authenticated user may do everything."""
    service_accounts: bool = False
    """True if pods whose service account does not exist are refused (plugin ServiceAccount). For servers whose
    controllers create the account ``default`` of every namespace."""
    node_lifecycle: bool = False
    """True if nodes are created with the taint ``node.kubernetes.io/not-ready`` (plugin TaintNodesByCondition). For
    servers whose controllers remove it from ready nodes."""

    max_requests_inflight: int = SEATS
    """Limit of requests that are carried out at the same time; more wait in a queue for each user."""
    audit_log: Path | None = None
    """The file of the audit log, one JSON line for each event; None: no log."""
    audit_policy: AuditPolicy = msgspec.field(default_factory=AuditPolicy)
    """The audit policy: levels of events by request."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the server, its certificates and its users."""

    host: str = "127.0.0.1"
    port: int = 0
    """The port; 0: any free one."""
    pki: Path | None = None
    """Folder of the certificates, made if missing; None serves plain HTTP."""
    kubelet: KubeletTLS | None = None
    """Certificates for connections to nodes; None: those of ``pki``, or plain HTTP without one."""
    names: tuple[str, ...] = ()
    """Host names and addresses in the certificate of the server; if empty, those of ``host`` and the loopback."""
    advertised: str = ""
    """The address in the URL of the server and in Service ``default/kubernetes``; without one there is no such
    Service."""
    client_authority: Path | None = None
    """PEM file of authorities whose client certificates are accepted beside those of ``pki``."""
    tokens: Mapping[str, UserInfo] = msgspec.field(default_factory=dict)
    """Static bearer tokens and their users."""
    anonymous: frozenset[str] | None = None
    """The paths on which requests without credentials act as ``system:anonymous``; None: all paths. On others they
    are refused."""
