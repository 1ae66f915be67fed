"""Ingresses with their classes, network policies, and the addresses of services."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import networking_v1
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.templates import selector_text
from cathedra.kinds.declarative import FieldTags, TypeTags
from cathedra.kinds.definition import AnyDefinition, Column, ResourceDefinition
from cathedra.kinds.strategies import CountedStrategy, ObjectRules

INGRESS_COLUMNS: Final = (
    NAME,
    Column("Class", description="The class of the controller that serves it."),
    Column("Hosts", description="Hosts of its rules."),
    Column("Address", description="Addresses at which it is reached."),
    Column("Ports", description="Ports at which it is reached."),
    AGE,
)
NETWORK_POLICY_COLUMNS: Final = (NAME, Column("Pod-Selector", description="The pods that it applies to."), AGE)
INGRESS_CLASS_COLUMNS: Final = (
    NAME,
    Column("Controller", description="What serves ingresses of the class."),
    Column("Parameters", description="More about it."),
    AGE,
)
ADDRESS_RANGE_COLUMNS: Final = (NAME, Column("CIDRs", description="Ranges of services' addresses."), AGE)
ADDRESS_COLUMNS: Final = (NAME, Column("ParentRef", description="What has the address."), AGE)
_MOST_HOSTS: Final = 3
_PEERS: Final = FieldTags(of=TypeTags({"ipBlock": FieldTags(of=TypeTags({"cidr": FieldTags(required=True)}))}))
NETWORK_POLICY_TAGS: Final = TypeTags(
    {
        "spec": FieldTags(
            of=TypeTags(
                {
                    "ingress": FieldTags(of=TypeTags({"from": _PEERS})),
                    "egress": FieldTags(of=TypeTags({"to": _PEERS})),
                }
            )
        )
    }
)
_REFERENCE: Final = TypeTags({"kind": FieldTags(required=True), "name": FieldTags(required=True)})
INGRESS_CLASS_TAGS: Final = TypeTags({"spec": FieldTags(of=TypeTags({"parameters": FieldTags(of=_REFERENCE)}))})
_PARENT: Final = TypeTags({"resource": FieldTags(required=True), "name": FieldTags(required=True)})
ADDRESS_TAGS: Final = TypeTags(
    {"spec": FieldTags(of=TypeTags({"parentRef": FieldTags(required=True, immutable=True, of=_PARENT)}))}
)


def ingress_cells(ingress: networking_v1.Ingress, now: float) -> list[Any]:
    """Return the cells of an Ingress."""
    spec = ingress.spec
    addresses = {entry.ip or entry.hostname for entry in ingress.status.load_balancer.ingress} - {""}
    return [
        ingress.metadata.name,
        "<none>" if spec.ingress_class_name is None else spec.ingress_class_name,
        _hosts(spec.rules),
        ",".join(sorted(addresses)),
        "80, 443" if spec.tls else "80",
        age(ingress.metadata.creation_timestamp, now),
    ]


def _hosts(rules: tuple[networking_v1.IngressRule, ...]) -> str:
    """Return up to three hosts, and the number of further rules, with or without a host."""
    hosts: list[str] = []
    more = False
    for rule in rules:
        more = more or len(hosts) == _MOST_HOSTS
        if rule.host and not more:
            hosts.append(rule.host)
    shown = ",".join(hosts) or "*"
    return f"{shown} + {len(rules) - _MOST_HOSTS} more..." if more else shown


def network_policy_cells(policy: networking_v1.NetworkPolicy, now: float) -> list[Any]:
    """Return the cells of a NetworkPolicy."""
    created = age(policy.metadata.creation_timestamp, now)
    return [policy.metadata.name, selector_text(policy.spec.pod_selector), created]


def ingress_class_cells(ingress: networking_v1.IngressClass, now: float) -> list[Any]:
    """Return the cells of an IngressClass."""
    reference = ingress.spec.parameters
    shown = "<none>"
    if reference is not None:
        group = f".{reference.api_group}" if reference.api_group else ""
        shown = f"{reference.kind}{group}/{reference.name}"
    return [ingress.metadata.name, ingress.spec.controller, shown, age(ingress.metadata.creation_timestamp, now)]


def address_range_cells(service: networking_v1.ServiceCIDR, now: float) -> list[Any]:
    """Return the cells of a ServiceCIDR."""
    return [service.metadata.name, ",".join(service.spec.cidrs), age(service.metadata.creation_timestamp, now)]


def address_cells(address: networking_v1.IPAddress, now: float) -> list[Any]:
    """Return the cells of an IPAddress."""
    parent = address.spec.parent_ref
    shown = "<none>"
    if parent is not None:
        shown = "/".join(part for part in (parent.group, parent.resource, parent.namespace, parent.name) if part)
    return [address.metadata.name, shown, age(address.metadata.creation_timestamp, now)]


def networking_definitions() -> tuple[AnyDefinition, ...]:
    """Return the definitions of all kinds of the group."""
    return (
        network_policy_definition(),
        ingress_definition(),
        BuiltinKind(
            networking_v1.IngressClass,
            "ingressclasses",
            namespaced=False,
            strategy=CountedStrategy(rules=ObjectRules(tags=INGRESS_CLASS_TAGS)),
            table=(INGRESS_CLASS_COLUMNS, ingress_class_cells),
        ).definition(),
        BuiltinKind(
            networking_v1.IPAddress,
            "ipaddresses",
            namespaced=False,
            rules=ObjectRules(tags=ADDRESS_TAGS),
            table=(ADDRESS_COLUMNS, address_cells),
            short_names=("ip",),
        ).definition(),
        BuiltinKind(
            networking_v1.ServiceCIDR,
            "servicecidrs",
            namespaced=False,
            table=(ADDRESS_RANGE_COLUMNS, address_range_cells),
        ).definition(),
    )


def ingress_definition() -> ResourceDefinition[networking_v1.Ingress]:
    """Return the definition of ingresses."""
    return BuiltinKind(
        networking_v1.Ingress,
        "ingresses",
        namespaced=True,
        counts_generation=True,
        table=(INGRESS_COLUMNS, ingress_cells),
        short_names=("ing",),
    ).definition()


def network_policy_definition() -> ResourceDefinition[networking_v1.NetworkPolicy]:
    """Return the definition of networkpolicies."""
    return BuiltinKind(
        networking_v1.NetworkPolicy,
        "networkpolicies",
        namespaced=True,
        rules=ObjectRules(tags=NETWORK_POLICY_TAGS),
        table=(NETWORK_POLICY_COLUMNS, network_policy_cells),
        short_names=("netpol",),
    ).definition()
