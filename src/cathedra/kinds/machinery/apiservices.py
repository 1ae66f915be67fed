"""API services: which server answers for a group and version, this one or another behind a service."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.apiregistration_v1 import APIService
from cathedra.api.field import ErrorList
from cathedra.api.formats import dns_1035_label, dns_subdomain, path_segment
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

_HTTPS: Final = 443
_GROUP_LIMIT: Final = 20_000
_VERSION_LIMIT: Final = 1_000
API_SERVICE_COLUMNS: Final = (
    NAME,
    Column("Service", description="The service behind which the server is; Local for this one."),
    Column("Available", description="Whether it answers."),
    AGE,
)


def default_api_service(service: APIService) -> APIService:
    """Return the object with its defaults: the service's port is that of HTTPS."""
    behind = service.spec.service
    if behind is None or behind.port is not None:
        return service
    return replace(service, spec=replace(service.spec, service=replace(behind, port=_HTTPS)))


def api_service_cells(service: APIService, now: float) -> list[Any]:
    """Return the cells of an APIService."""
    behind = service.spec.service
    available = next((one for one in service.status.conditions if one.type == "Available"), None)
    shown = "Unknown"
    if available is not None:
        shown = available.status if available.status == "True" else f"{available.status} ({available.reason})"
    return [
        service.metadata.name,
        "Local" if behind is None else f"{behind.namespace}/{behind.name}",
        shown,
        age(service.metadata.creation_timestamp, now),
    ]


def api_service_errors(service: APIService) -> ErrorList:
    """Return everything that is wrong with an APIService."""
    errors, spec = ErrorList(), service.spec
    wanted = f"{spec.version}.{spec.group}"
    if service.metadata.name != wanted:
        errors.invalid("metadata.name", service.metadata.name, f'must be `spec.version+"."+spec.group`: "{wanted}"')
    if not spec.group and spec.version != "v1":
        errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if spec.group:
        for problem in dns_subdomain(spec.group):
            errors.invalid("spec.group", spec.group, problem)
    for problem in dns_1035_label(spec.version):
        errors.invalid("spec.version", spec.version, problem)
    for name, value, limit in (
        ("groupPriorityMinimum", spec.group_priority_minimum, _GROUP_LIMIT),
        ("versionPriority", spec.version_priority, _VERSION_LIMIT),
    ):
        if not 0 < value <= limit:
            errors.invalid(f"spec.{name}", value, f"must be positive and less than {limit}")
    if spec.service is None:
        _local_errors(errors, service)
        return errors
    for name, text in (("namespace", spec.service.namespace), ("name", spec.service.name)):
        if not text:
            errors.required(f"spec.service.{name}")
    if spec.service.port is not None and not 0 < spec.service.port < 65_536:
        problem = "port is not valid: must be between 1 and 65535, inclusive"
        errors.invalid("spec.service.port", spec.service.port, problem)
    if spec.insecure_skip_tls_verify and spec.ca_bundle:
        errors.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")
    return errors


def _local_errors(errors: ErrorList, service: APIService) -> None:
    spec = service.spec
    if spec.ca_bundle:
        size = f"{len(spec.ca_bundle)} bytes"
        errors.invalid("spec.caBundle", size, "local APIServices may not have a caBundle")
    if spec.insecure_skip_tls_verify:
        errors.invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")


def api_service_definition() -> ResourceDefinition[APIService]:
    """Return the definition of apiservices."""
    return BuiltinKind(
        APIService,
        "apiservices",
        namespaced=False,
        default=default_api_service,
        rules=ObjectRules(create=api_service_errors, update=lambda new, _: api_service_errors(new)),
        table=(API_SERVICE_COLUMNS, api_service_cells),
        categories=("api-extensions",),
        name_rule=path_segment,
    ).definition()
