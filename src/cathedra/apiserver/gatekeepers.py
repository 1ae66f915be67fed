"""The gatekeepers of a server, put together: who may do what, and what is let in (spec: apimachinery.md, sections 15.1
and 16)."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cathedra.api.definition import ResourceDefinition
from cathedra.api.gates import FeatureGates
from cathedra.apiserver.admission.escalation import EscalationCheck
from cathedra.apiserver.admission.lifecycle import NamespaceLifecycle
from cathedra.apiserver.admission.noderestriction import NodeRestriction
from cathedra.apiserver.admission.plugin import AdmissionChain, AdmissionPlugin
from cathedra.apiserver.admission.pods.defaults import DefaultTolerations, PodPriority, PodServiceAccount
from cathedra.apiserver.admission.policies.check import PolicyCheck
from cathedra.apiserver.admission.protection import PodGroupProtection
from cathedra.apiserver.admission.resourcequota import ResourceQuotaCheck
from cathedra.apiserver.admission.webhooks.caller import Caller
from cathedra.apiserver.admission.webhooks.calling import Asker
from cathedra.apiserver.admission.webhooks.hooks import MUTATING, VALIDATING, Hooks
from cathedra.apiserver.admission.webhooks.mutating import MutatingWebhooks
from cathedra.apiserver.admission.webhooks.validating import ValidatingWebhooks
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import AlwaysAllow, Authorizer, HeldRules, MastersOnly, Union
from cathedra.apiserver.authorization.bootstrap.defaults import node_rules
from cathedra.apiserver.authorization.node import NodeAuthorizer, node_of
from cathedra.apiserver.authorization.noderelations import NodeRelations
from cathedra.apiserver.authorization.rbac import RBAC
from cathedra.apiserver.authorization.rules import EVERYTHING
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.registry.registry import Registry
from cathedra.clock import Clock

__all__ = ["Gatekeepers", "gatekeepers"]


@dataclass(frozen=True, slots=True)
class Gatekeepers:
    """Who decides about requests, and about objects."""

    authorizer: Authorizer
    admission: AdmissionChain
    rules: Callable[[UserInfo, str], HeldRules]
    """What a user may do in a namespace."""
    caller: Caller
    """Calls webhooks; whoever made the gatekeepers closes it."""


def gatekeepers(
    registry: Registry,
    config: ServerConfig,
    gates: FeatureGates,
    kinds: Callable[[], Iterator[ResourceDefinition[Any]]],
    *,
    clock: Clock,
    random: random_module.Random,
) -> Gatekeepers:
    """The gatekeepers that a server's configuration asks for, over objects that are loaded; ``kinds`` lists what is
    served."""
    plugins: list[AdmissionPlugin] = [
        NamespaceLifecycle(registry),
        PodServiceAccount(registry, required=config.service_accounts, random=random),
    ]
    authorizer: Authorizer = AlwaysAllow()
    rbac: RBAC | None = None
    if config.authorization:
        rbac = RBAC(registry)
        nodes = NodeAuthorizer(
            NodeRelations(registry), node_rules(gates), by_selector=gates.get("AuthorizeNodeWithSelectors", True)
        )
        authorizer = Union((MastersOnly(), nodes, rbac))
        plugins.append(NodeRestriction(registry))
    caller = Caller(registry)
    asker = Asker(caller, random)
    outside = MutatingWebhooks(Hooks(registry, MUTATING, authorizer), asker, gates, clock)
    plugins += [PodPriority(registry), DefaultTolerations(), PodGroupProtection(), outside]
    if rbac is not None:
        plugins.append(EscalationCheck(rbac, authorizer))
    plugins += [
        PolicyCheck(registry, authorizer, kinds),
        ValidatingWebhooks(Hooks(registry, VALIDATING, authorizer), asker),
        ResourceQuotaCheck(registry, gates),
    ]
    return Gatekeepers(authorizer, AdmissionChain(plugins, outside=outside), _rules_of(rbac), caller)


def _rules_of(rbac: RBAC | None) -> Callable[[UserInfo, str], HeldRules]:
    def held(user: UserInfo, namespace: str) -> HeldRules:
        if rbac is None:
            return HeldRules(EVERYTHING)
        incomplete = node_of(user) is not None
        error = "node authorizer does not support user rule resolution" if incomplete else ""
        return HeldRules(tuple(grant.rule for grant in rbac.grants(user, namespace)), error)

    return held
