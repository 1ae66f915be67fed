"""Default roles in the system's namespaces: who may read what of kube-system and kube-public."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.apiserver.authorization.bootstrap.rulebook import EVENTS, GatedRule, rule

__all__ = ["NAMESPACED_BINDINGS", "NAMESPACED_ROLES", "NamespacedBinding", "NamespacedRole"]

_SYSTEM: Final = "kube-system"
_PUBLIC: Final = "kube-public"
_READER: Final = "extension-apiserver-authentication-reader"
_MANAGER: Final = "kube-controller-manager"
_SCHEDULER: Final = "kube-scheduler"


class NamespacedRole(msgspec.Struct, frozen=True):
    """A role that every cluster has."""

    namespace: str
    name: str
    rules: tuple[GatedRule, ...]


class NamespacedBinding(msgspec.Struct, frozen=True):
    """Whom a role is bound to: (kind, name) each; service accounts are those of kube-system."""

    namespace: str
    name: str
    role: str
    subjects: tuple[tuple[str, str], ...]


def _leader_locking(component: str) -> NamespacedRole:
    rules = (rule("watch", "core", "configmaps"), rule("get update", "core", "configmaps", component))
    return NamespacedRole(_SYSTEM, f"system::leader-locking-{component}", rules)


NAMESPACED_ROLES: Final = (
    NamespacedRole(_SYSTEM, _READER, (rule("read", "core", "configmaps", "extension-apiserver-authentication"),)),
    NamespacedRole(_SYSTEM, "system:controller:bootstrap-signer", (rule("read", "core", "secrets"),)),
    NamespacedRole(_SYSTEM, "system:controller:cloud-provider", (rule("create read", "core", "configmaps"),)),
    NamespacedRole(_SYSTEM, "system:controller:token-cleaner", (rule("read delete", "core", "secrets"), EVENTS)),
    _leader_locking(_MANAGER),
    _leader_locking(_SCHEDULER),
    NamespacedRole(
        _PUBLIC,
        "system:controller:bootstrap-signer",
        (rule("read", "core", "configmaps"), rule("update", "core", "configmaps", "cluster-info"), EVENTS),
    ),
)


def _own(namespace: str, role: str, *subjects: tuple[str, str]) -> NamespacedBinding:
    return NamespacedBinding(namespace, role, role, subjects)


def _component(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("User", f"system:{name}"), ("ServiceAccount", name)


NAMESPACED_BINDINGS: Final = (
    NamespacedBinding(
        _SYSTEM, f"system::{_READER}", _READER, (("User", f"system:{_MANAGER}"), ("User", f"system:{_SCHEDULER}"))
    ),
    _own(_SYSTEM, f"system::leader-locking-{_MANAGER}", *_component(_MANAGER)),
    _own(_SYSTEM, f"system::leader-locking-{_SCHEDULER}", *_component(_SCHEDULER)),
    _own(_SYSTEM, "system:controller:bootstrap-signer", ("ServiceAccount", "bootstrap-signer")),
    _own(_SYSTEM, "system:controller:cloud-provider", ("ServiceAccount", "cloud-provider")),
    _own(_SYSTEM, "system:controller:token-cleaner", ("ServiceAccount", "token-cleaner")),
    _own(_PUBLIC, "system:controller:bootstrap-signer", ("ServiceAccount", "bootstrap-signer")),
)
