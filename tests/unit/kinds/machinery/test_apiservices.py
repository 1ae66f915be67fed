"""API services: what must be right, and how they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apiregistration_v1 import (
    APIService,
    APIServiceCondition,
    APIServiceSpec,
    APIServiceStatus,
    ServiceReference,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.kinds.machinery.apiservices import api_service_cells, api_service_errors

BEHIND = ServiceReference(namespace="n", name="s", port=443)


def service(name: str = "v1.d.x", **spec: Any) -> APIService:
    given = {"group": "d.x", "version": "v1", "group_priority_minimum": 1000, "version_priority": 10, **spec}
    return APIService(metadata=ObjectMeta(name=name), spec=APIServiceSpec(**given))


def test_good_ones_are_accepted() -> None:
    assert not api_service_errors(service())
    assert not api_service_errors(service(service=BEHIND, ca_bundle=b"x"))
    assert not api_service_errors(service("v1.", group=""))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (service("x"), 'metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.d.x"'),
        (
            service("v2.", group="", version="v2"),
            "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
        ),
        (
            service(group_priority_minimum=0),
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
        ),
        (
            service(version_priority=1001),
            "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
        ),
        (
            service(ca_bundle=b"abc"),
            'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
        ),
        (
            service(insecure_skip_tls_verify=True),
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
        ),
        (service(service=ServiceReference(namespace="n")), "spec.service.name: Required value"),
        (
            service(service=BEHIND, insecure_skip_tls_verify=True, ca_bundle=b"x"),
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ),
    ],
)
def test_bad_ones_are_refused(made: APIService, text: str) -> None:
    assert [str(error) for error in api_service_errors(made)] == [text]


def test_the_table_shows_where_and_whether() -> None:
    refused = APIServiceCondition(type="Available", status="False", reason="MissingEndpoints")
    made = APIService(
        metadata=ObjectMeta(name="v1.d.x"),
        spec=APIServiceSpec(service=BEHIND),
        status=APIServiceStatus(conditions=(refused,)),
    )
    assert api_service_cells(made, 0.0)[:3] == ["v1.d.x", "n/s", "False (MissingEndpoints)"]
    assert api_service_cells(service(), 0.0)[:3] == ["v1.d.x", "Local", "Unknown"]
