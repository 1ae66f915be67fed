"""What a slice says of one pod."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import to_dict
from cathedra.controllers.endpointslices.endpoints import address_types, endpoint_of, ports_of
from tests.unit.controllers.endpointslices.objects import pod, service

NODE = Node(metadata=ObjectMeta(name="n1", labels={"topology.kubernetes.io/zone": "a"}))
GOING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("made", "publish", "conditions"),
    [
        ({}, False, (True, True, False)),
        ({"ready": False}, False, (False, False, False)),
        ({"ready": False}, True, (True, False, False)),
        (GOING, False, (False, True, True)),
        (GOING, True, (True, True, True)),
    ],
)
def test_an_endpoint_says_whether_its_pod_is_ready_serves_and_ends(
    made: dict[str, Any], publish: bool, conditions: tuple[bool, bool, bool]
) -> None:
    endpoint = endpoint_of(pod("p", "10.0.0.1", **made), NODE, service(publishNotReadyAddresses=publish), "IPv4")
    assert endpoint is not None
    told = endpoint.conditions
    assert (told.ready, told.serving, told.terminating) == conditions


def test_an_endpoint_names_its_pod_node_and_zone() -> None:
    endpoint = endpoint_of(pod("p", "10.0.0.1"), NODE, service(), "IPv4")
    assert to_dict(endpoint) == {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "uid-p"},
        "nodeName": "n1",
        "zone": "a",
    }


@pytest.mark.parametrize(("subdomain", "hostname"), [("web", "h"), ("other", None)])
def test_a_host_name_counts_within_the_service_that_is_its_domain(subdomain: str, hostname: str | None) -> None:
    endpoint = endpoint_of(pod("p", "10.0.0.1", hostname="h", subdomain=subdomain), NODE, service(), "IPv4")
    assert endpoint is not None
    assert endpoint.hostname == hostname


def test_addresses_are_of_one_family_and_in_canonical_form() -> None:
    both = pod("p", "10.0.0.1", "2001:DB8:0::1")
    found = {kind: endpoint_of(both, None, service(), kind) for kind in ("IPv4", "IPv6")}
    assert [one.addresses for one in found.values() if one] == [("10.0.0.1",), ("2001:db8::1",)]
    assert endpoint_of(pod("p", "10.0.0.1"), None, service(), "IPv6") is None


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, ("IPv6", "IPv4")),
        ({"clusterIP": "fd00::1"}, ("IPv6",)),
        ({"clusterIP": "10.0.0.10"}, ("IPv4",)),
        ({"clusterIP": "None"}, ("IPv4",)),
        ({}, ("IPv4",)),
    ],
)
def test_a_service_has_the_families_that_it_says_or_that_of_its_address(
    spec: dict[str, Any], types: tuple[str, ...]
) -> None:
    assert address_types(service(**spec)) == types


def test_named_ports_are_those_of_each_pod_and_missing_ones_are_left_out() -> None:
    named = {"name": "a", "port": 80, "targetPort": "web", "appProtocol": "http"}
    found = ports_of(service(ports=[named, {"name": "b", "port": 81, "targetPort": "nowhere"}]), PORTED)
    assert [to_dict(port) for port in found] == [{"name": "a", "port": 8080, "protocol": "TCP", "appProtocol": "http"}]


PORTED = pod("p", "10.0.0.1", ports=[{"name": "web", "containerPort": 8080, "protocol": "TCP"}])
