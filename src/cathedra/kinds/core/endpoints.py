"""Endpoints of services, and their newer form, endpoint slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core import core_v1, discovery_v1
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age, first_three
from cathedra.kinds.declarative import FieldTags, TypeTags, one_of
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

_ADDRESS_TYPE: Final = FieldTags(required=True, immutable=True, checks=(one_of("FQDN", "IPv4", "IPv6"),))
ENDPOINT_SLICE_TAGS: Final = TypeTags(
    {
        "addressType": _ADDRESS_TYPE,
        "endpoints": FieldTags(of=TypeTags({"addresses": FieldTags(required=True, max_items=100)})),
    }
)
ENDPOINTS_COLUMNS: Final = (NAME, Column("Endpoints", description="Addresses and ports that are ready."), AGE)
ENDPOINT_SLICE_COLUMNS: Final = (
    NAME,
    Column("AddressType", description="The kind of addresses."),
    Column("Ports", description="Ports of all endpoints."),
    Column("Endpoints", description="Addresses of the endpoints."),
    AGE,
)


def endpoints_cells(endpoints: core_v1.Endpoints, now: float) -> list[Any]:
    """Return the cells of an Endpoints object."""
    shown = first_three([text for subset in endpoints.subsets for text in _addresses(subset)])
    created = age(endpoints.metadata.creation_timestamp, now)
    return [endpoints.metadata.name, shown if endpoints.subsets else "<none>", created]


def _addresses(subset: core_v1.EndpointSubset) -> Iterator[str]:
    if not subset.ports:
        # A headless service may have none.
        yield from (address.ip for address in subset.addresses)
    for port in subset.ports:
        for address in subset.addresses:
            host = f"[{address.ip}]" if ":" in address.ip else address.ip
            yield f"{host}:{port.port}"


def endpoint_slice_cells(piece: discovery_v1.EndpointSlice, now: float) -> list[Any]:
    """Return the cells of an EndpointSlice."""
    ports = [str(port.port) if port.port is not None else port.name or "*" for port in piece.ports or ()]
    addresses = [address for endpoint in piece.endpoints for address in endpoint.addresses]
    return [
        piece.metadata.name,
        piece.address_type,
        first_three(ports) or "<unset>",
        first_three(addresses) or "<unset>",
        age(piece.metadata.creation_timestamp, now),
    ]


def endpoints_definition() -> ResourceDefinition[core_v1.Endpoints]:
    """Return the definition of endpoints."""
    return BuiltinKind(
        core_v1.Endpoints,
        "endpoints",
        namespaced=True,
        table=(ENDPOINTS_COLUMNS, endpoints_cells),
        short_names=("ep",),
        created_by_update=True,
    ).definition()


def endpoint_slice_definition() -> ResourceDefinition[discovery_v1.EndpointSlice]:
    """Return the definition of endpointslices."""
    return BuiltinKind(
        discovery_v1.EndpointSlice,
        "endpointslices",
        namespaced=True,
        rules=ObjectRules(tags=ENDPOINT_SLICE_TAGS),
        table=(ENDPOINT_SLICE_COLUMNS, endpoint_slice_cells),
    ).definition()
