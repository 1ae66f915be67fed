"""Ingresses and network policies: rows."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.networking_v1 import Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        ([], "*"),
        ([""], "*"),
        (["a", "b"], "a,b"),
        (["a", "b", "c"], "a,b,c"),
        (["a", "b", "c", "d", "e"], "a,b,c + 2 more..."),
    ],
)
def test_an_ingress_shows_three_hosts(hosts: list[str], shown: str) -> None:
    assert (
        row("ingresses", from_dict(Ingress, {"spec": {"rules": [{"host": host} for host in hosts]}}))["Hosts"] == shown
    )


def test_an_ingress_shows_class_addresses_and_ports() -> None:
    values: dict[str, Any] = {
        "spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["a"]}]},
        "status": {"loadBalancer": {"ingress": [{"hostname": "lb"}, {"ip": "1.2.3.4"}, {}]}},
    }
    found = row("ingresses", from_dict(Ingress, values))
    assert (found["Class"], found["Address"], found["Ports"]) == ("nginx", "1.2.3.4,lb", "80, 443")
    plain = row("ingresses", from_dict(Ingress, {}))
    assert (plain["Class"], plain["Address"], plain["Ports"]) == ("<none>", "", "80")


def test_a_network_policy_shows_the_pods_that_it_selects() -> None:
    values = {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}
    assert row("networkpolicies", from_dict(NetworkPolicy, values))["Pod-Selector"] == "a=b"
    assert row("networkpolicies", from_dict(NetworkPolicy, {}))["Pod-Selector"] == "<none>"


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [(None, "<none>"), ({"kind": "P", "name": "n"}, "P/n"), ({"apiGroup": "g", "kind": "P", "name": "n"}, "P.g/n")],
)
def test_an_ingress_class_shows_its_parameters(parameters: dict[str, Any] | None, shown: str) -> None:
    found = row("ingressclasses", from_dict(IngressClass, {"spec": {"controller": "c", "parameters": parameters}}))
    assert (found["Controller"], found["Parameters"]) == ("c", shown)


def test_addresses_show_ranges_and_owners() -> None:
    ranges = row("servicecidrs", from_dict(ServiceCIDR, {"spec": {"cidrs": ["10.0.0.0/24", "fd00::/108"]}}))
    assert ranges["CIDRs"] == "10.0.0.0/24,fd00::/108"
    parent = {"resource": "services", "namespace": "default", "name": "kubernetes"}
    address = row("ipaddresses", from_dict(IPAddress, {"spec": {"parentRef": parent}}))
    assert address["ParentRef"] == "services/default/kubernetes"
