"""The Service, Endpoints and EndpointSlice ``kubernetes`` in namespace ``default``, by which pods find the API server.

A kubelet sets ``KUBERNETES_SERVICE_HOST`` from the Service, and clients in pods connect there by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cathedra.api.core import discovery_v1
from cathedra.api.core.core_v1 import (
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Service,
    ServicePort,
    ServiceSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.bootstrap.keeping import KeptObject

SERVICE_ADDRESS: Final = "10.0.0.1"
"""The first address of kube-apiserver's default service network."""
SERVICE_NAMES: Final = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", SERVICE_ADDRESS)
"""Names that the server's certificate must have, beside its host."""

_NAMESPACE: Final = "default"
_NAME: Final = "kubernetes"


def kubernetes_service(host: str, port: int) -> Iterator[KeptObject]:
    """The three objects of a server that is reached at ``host`` and ``port``."""
    service = Service(
        metadata=_metadata({"component": "apiserver", "provider": "kubernetes"}),
        spec=ServiceSpec(
            type="ClusterIP",
            cluster_ip=SERVICE_ADDRESS,
            cluster_ips=(SERVICE_ADDRESS,),
            ip_families=("IPv4",),
            ip_family_policy="SingleStack",
            session_affinity="None",
            ports=(ServicePort(name="https", protocol="TCP", port=443, target_port=port),),
        ),
    )
    yield KeptObject(GroupResource("", "services"), service, ())
    endpoints = Endpoints(
        metadata=_metadata({"endpointslice.kubernetes.io/skip-mirror": "true"}),
        subsets=(
            EndpointSubset(
                addresses=(EndpointAddress(ip=host),), ports=(EndpointPort(name="https", port=port, protocol="TCP"),)
            ),
        ),
    )
    yield KeptObject(GroupResource("", "endpoints"), endpoints, ("subsets",))
    piece = discovery_v1.EndpointSlice(
        metadata=_metadata({"kubernetes.io/service-name": _NAME}),
        address_type="IPv6" if ":" in host else "IPv4",
        endpoints=(discovery_v1.Endpoint(addresses=(host,), conditions=discovery_v1.EndpointConditions(ready=True)),),
        ports=(discovery_v1.EndpointPort(name="https", port=port, protocol="TCP"),),
    )
    yield KeptObject(GroupResource("discovery.k8s.io", "endpointslices"), piece, ("endpoints", "ports"))


def _metadata(labels: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(name=_NAME, namespace=_NAMESPACE, labels=labels)
