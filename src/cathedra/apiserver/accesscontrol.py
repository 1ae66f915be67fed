"""The authorizer and the admission chain of a server, made by its configuration (docs/spec/apimachinery.md §15.1
and §16)."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Iterator

import msgspec

from cathedra.apiserver.admission.certificates import CertificateChecks
from cathedra.apiserver.admission.defaultclasses import DefaultIngressClass, DefaultStorageClass
from cathedra.apiserver.admission.escalation import EscalationCheck
from cathedra.apiserver.admission.lifecycle import NamespaceLifecycle
from cathedra.apiserver.admission.limitranger import LimitRanger
from cathedra.apiserver.admission.metrics import AdmissionMetrics
from cathedra.apiserver.admission.noderestriction import NodeRestriction
from cathedra.apiserver.admission.nodetaints import TaintNodesByCondition
from cathedra.apiserver.admission.plugin import AdmissionChain, AdmissionPlugin
from cathedra.apiserver.admission.pods.defaults import (
    DefaultTolerations,
    GroupPriority,
    PodCredentials,
    PodPriority,
    PodServiceAccount,
)
from cathedra.apiserver.admission.pods.runtimeclasses import RuntimeClasses
from cathedra.apiserver.admission.pods.topologylabels import PodTopologyLabels
from cathedra.apiserver.admission.podsecurity.enforcement import PodSecurity
from cathedra.apiserver.admission.policies.check import PolicyCheck
from cathedra.apiserver.admission.policies.mutating import MutatingPolicies
from cathedra.apiserver.admission.protection import (
    PodGroupProtection,
    PodGroupWorkloadExists,
    StorageObjectInUseProtection,
)
from cathedra.apiserver.admission.rebuilding import Rebuilder
from cathedra.apiserver.admission.resourcequota import ResourceQuotaCheck
from cathedra.apiserver.admission.webhooks.client import WebhookClient
from cathedra.apiserver.admission.webhooks.dispatcher import WebhookDispatcher
from cathedra.apiserver.admission.webhooks.hooks import MUTATING, VALIDATING, Hooks
from cathedra.apiserver.admission.webhooks.mutating import MutatingWebhooks
from cathedra.apiserver.admission.webhooks.validating import ValidatingWebhooks
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import AlwaysAllow, Authorizer, HeldRules, MastersOnly, Union
from cathedra.apiserver.authorization.bootstrap.defaults import node_rules
from cathedra.apiserver.authorization.node import NodeAuthorizer, node_of
from cathedra.apiserver.authorization.noderelations import NodeRelations
from cathedra.apiserver.authorization.policyrules import EVERYTHING
from cathedra.apiserver.authorization.rbac import RBAC
from cathedra.apiserver.computation import Computations
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.registry.registry import Registry
from cathedra.clock import Clock
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import FeatureGates, behaviours


class AccessControl(msgspec.Struct, frozen=True):
    """The authorizer of requests and the admission chain of objects."""

    authorizer: Authorizer
    admission: AdmissionChain
    rules: Callable[[UserInfo, str], HeldRules]
    """Returns the rules that a user holds in a namespace."""
    webhooks: WebhookClient
    """Connections to webhooks; closed with the server."""


class AccessSetup(msgspec.Struct, frozen=True):
    """The dependencies of access control other than the stored objects."""

    config: ServerConfig
    gates: FeatureGates
    kinds: Callable[[], Iterator[AnyDefinition]]
    """Returns the served kinds."""
    computations: Computations
    clock: Clock
    random: random_module.Random


def access_control(registry: Registry, setup: AccessSetup) -> AccessControl:
    """Return the authorizer and the admission chain that a configuration enables.

    The objects of the registry must be loaded.
    """
    config, gates, kinds, computations = setup.config, setup.gates, setup.kinds, setup.computations
    clock, random = setup.clock, setup.random
    # The order is Kubernetes': defaults before policies and webhooks, which see the object as it will be stored; quota
    # last, so that a write that another plugin refuses is not charged.
    plugins: list[AdmissionPlugin] = [
        NamespaceLifecycle(registry),
        LimitRanger(registry, gates),
        PodServiceAccount(registry, required=config.service_accounts, clock=clock, random=random),
        PodSecurity(registry, gates),
    ]
    rbac = RBAC(registry) if config.authorization else None
    authorizer = _authorizer(registry, rbac, gates)
    if rbac is not None:
        plugins.append(NodeRestriction(registry))
    if config.node_lifecycle:
        plugins.append(TaintNodesByCondition())
    client = WebhookClient(registry)
    metrics = AdmissionMetrics(clock.monotonic)
    dispatcher = WebhookDispatcher(client, random, metrics)
    rebuilder = Rebuilder(gates, clock)
    mutating = (
        MutatingPolicies(registry, authorizer, kinds, rebuilder, computations),
        MutatingWebhooks(Hooks(registry, MUTATING, authorizer, computations), dispatcher, rebuilder),
    )
    plugins += [
        PodPriority(registry),
        DefaultTolerations(),
        PodGroupProtection(gates),
        StorageObjectInUseProtection(),
        DefaultStorageClass(registry),
        RuntimeClasses(registry, gates),
        DefaultIngressClass(registry),
    ]
    if gates.get("PodTopologyLabelsAdmission", False):
        plugins.append(PodTopologyLabels(registry))
    if gates.has(behaviours.GROUPS_SCHEDULED_AS_UNITS) and gates["GenericWorkload"]:
        plugins.append(GroupPriority(registry, gates))
    plugins.append(PodCredentials(registry, random))
    plugins += mutating
    if rbac is not None:
        plugins.append(EscalationCheck(rbac, authorizer))
    plugins += [
        CertificateChecks(authorizer),
        PodGroupWorkloadExists(registry),
        PolicyCheck(registry, authorizer, kinds, computations, metrics),
        ValidatingWebhooks(Hooks(registry, VALIDATING, authorizer, computations), dispatcher, computations),
        ResourceQuotaCheck(registry, gates),
    ]
    chain = AdmissionChain(plugins, external=mutating, observe=registry.observe, metrics=metrics)
    return AccessControl(authorizer, chain, _rules_of(rbac), client)


def _authorizer(registry: Registry, rbac: RBAC | None, gates: FeatureGates) -> Authorizer:
    """Return the authorizer of administrators, nodes and roles; without roles everything is allowed."""
    if rbac is None:
        return AlwaysAllow()
    nodes = NodeAuthorizer(
        NodeRelations(registry), node_rules(gates), by_selector=gates.get("AuthorizeNodeWithSelectors", True)
    )
    return Union((MastersOnly(), nodes, rbac))


def _rules_of(rbac: RBAC | None) -> Callable[[UserInfo, str], HeldRules]:
    def held(user: UserInfo, namespace: str) -> HeldRules:
        if rbac is None:
            return HeldRules(EVERYTHING)
        incomplete = node_of(user) is not None
        error = "node authorizer does not support user rule resolution" if incomplete else ""
        return HeldRules(tuple(grant.rule for grant in rbac.grants(user, namespace)), error)

    return held
