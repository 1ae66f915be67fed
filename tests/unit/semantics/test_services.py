"""Which pods are behind a service, and at which of their ports."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod, Service, ServicePort
from cathedra.api.struct import from_dict
from cathedra.semantics.services import has_hostname_in, is_endpoint, selects_pod, target_port


def pod(namespace: str = "ns", *, status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    metadata = {"name": "p", "namespace": namespace, "labels": {"a": "1", "b": "2"}}
    return from_dict(Pod, {"metadata": metadata, "spec": {"containers": [], **spec}, "status": status or {}})


def service(**spec: Any) -> Service:
    return from_dict(Service, {"metadata": {"name": "s", "namespace": "ns"}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "namespace", "selected"),
    [
        ({"selector": {"a": "1"}}, "ns", True),
        ({"selector": {"a": "1", "b": "2"}}, "ns", True),
        ({"selector": {"a": "1", "c": "3"}}, "ns", False),
        ({"selector": {"a": "1"}}, "other", False),
        ({}, "ns", False),
        ({"selector": {"a": "1"}, "type": "ExternalName"}, "ns", False),
    ],
)
def test_a_service_selects_pods_of_its_namespace_by_their_labels(
    spec: dict[str, Any], namespace: str, selected: bool
) -> None:
    assert selects_pod(service(**spec), pod(namespace)) == selected


@pytest.mark.parametrize(
    ("status", "reachable"),
    [
        ({"podIP": "10.0.0.1"}, True),
        ({"podIPs": [{"ip": "10.0.0.1"}], "phase": "Running"}, True),
        ({}, False),
        ({"podIP": "10.0.0.1", "phase": "Succeeded"}, False),
        ({"podIP": "10.0.0.1", "phase": "Failed"}, False),
    ],
)
def test_a_pod_with_an_address_can_be_reached_until_it_has_ended(status: dict[str, Any], reachable: bool) -> None:
    assert is_endpoint(pod(status=status)) == reachable


@pytest.mark.parametrize(
    ("spec", "named"),
    [({"hostname": "h", "subdomain": "s"}, True), ({"hostname": "h"}, False), ({"subdomain": "s"}, False)],
)
def test_a_pod_has_a_name_in_the_service_that_is_its_subdomain(spec: dict[str, Any], named: bool) -> None:
    assert has_hostname_in(service(), pod(**spec)) == named


PORTS = {
    "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}],
    "initContainers": [
        {"name": "once", "ports": [{"name": "early", "containerPort": 1}]},
        {"name": "beside", "restartPolicy": "Always", "ports": [{"name": "metrics", "containerPort": 9000}]},
    ],
}


@pytest.mark.parametrize(
    ("port", "target"),
    [
        ({"port": 80, "targetPort": 8443}, 8443),
        ({"port": 80}, 80),
        ({"port": 80, "targetPort": "web"}, 8080),
        ({"port": 80, "targetPort": "web", "protocol": "UDP"}, None),
        ({"port": 80, "targetPort": "metrics"}, 9000),
        ({"port": 80, "targetPort": "early"}, None),
    ],
)
def test_a_port_is_a_number_or_the_name_of_one_of_a_container_that_goes_on(
    port: dict[str, Any], target: int | None
) -> None:
    assert target_port(pod(**PORTS), from_dict(ServicePort, port)) == target
