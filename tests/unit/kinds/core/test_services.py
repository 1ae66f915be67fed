"""Services: defaults and rows."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Service
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import defaulted, definition_of, row

PORTS = [{"port": 80}, {"port": 443, "targetPort": "tls", "protocol": "UDP", "nodePort": 30443}]


def test_a_service_is_inside_the_cluster_at_the_ports_of_its_pods() -> None:
    spec = defaulted("services", from_dict(Service, {"spec": {"ports": PORTS}})).spec
    assert (spec.type, spec.session_affinity, spec.internal_traffic_policy) == ("ClusterIP", "None", "Cluster")
    assert [(port.protocol, port.target_port) for port in spec.ports] == [("TCP", 80), ("UDP", "tls")]


@pytest.mark.parametrize(
    ("spec", "external", "ports"),
    [
        ({"type": "ClusterIP", "externalTrafficPolicy": ""}, "", None),
        ({"type": "NodePort"}, "Cluster", None),
        ({"type": "LoadBalancer"}, "Cluster", True),
    ],
)
def test_services_with_node_ports_have_an_external_policy(
    spec: dict[str, Any], external: str, ports: bool | None
) -> None:
    made = defaulted("services", from_dict(Service, {"spec": spec})).spec
    assert (made.external_traffic_policy, made.allocate_load_balancer_node_ports) == (external, ports)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"spec": {"type": "ClusterIP"}}, "<none>"),
        ({"spec": {"type": "NodePort", "externalIPs": ["1.2.3.4", "5.6.7.8"]}}, "1.2.3.4,5.6.7.8"),
        ({"spec": {"type": "LoadBalancer"}}, "<pending>"),
        (
            {
                "spec": {"type": "LoadBalancer", "externalIPs": ["1.2.3.4"]},
                "status": {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}, {"hostname": "lb.example.com"}]}},
            },
            "9.9.9.9,lb.example.com,1.2.3.4",
        ),
        ({"spec": {"type": "ExternalName", "externalName": "db.example.com"}}, "db.example.com"),
    ],
)
def test_the_address_from_outside_depends_on_the_type(values: dict[str, Any], shown: str) -> None:
    assert row("services", from_dict(Service, values))["External-IP"] == shown


def test_ports_are_shown_with_their_node_ports() -> None:
    found = row("services", defaulted("services", from_dict(Service, {"spec": {"ports": PORTS}})))
    assert (found["Port(s)"], found["Selector"], found["Cluster-IP"]) == ("80/TCP,443:30443/UDP", "<none>", "<none>")


def test_names_of_services_begin_with_a_letter() -> None:
    rule = definition_of("services").name_rule
    assert not list(rule("a-1"))
    assert list(rule("1-a"))
