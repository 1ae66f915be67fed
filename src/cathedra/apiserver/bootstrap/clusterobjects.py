"""Objects that every cluster has: namespaces, the Service ``kubernetes``, and public facts in ConfigMaps.

The four system namespaces are created at the start (docs/spec/apimachinery.md §16.1).

The Service, Endpoints and EndpointSlice ``kubernetes`` in namespace ``default`` lead pods to the API server. A kubelet
sets ``KUBERNETES_SERVICE_HOST`` from the Service, and clients in pods connect there by default.

The ConfigMap ``kube-public/cluster-info`` is kubeadm's, for nodes that join: a kubeconfig without users, with the
address of the API server and the authority of its certificate. The bootstrap signer adds a signature for each bootstrap
token that may sign. A Role lets anonymous users read it, for those servers that take anonymous requests on that path.

The ConfigMap ``kube-system/extension-apiserver-authentication`` is for servers that let the API server authenticate for
them (metrics servers, webhooks with client certificates, the health ports of scheduler and controller manager); the
Role ``extension-apiserver-authentication-reader`` lets them read it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.core import discovery_v1
from cathedra.api.core.core_v1 import (
    ConfigMap,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Namespace,
    Service,
    ServicePort,
    ServiceSpec,
)
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.core.rbac_v1 import PolicyRule, Role, RoleBinding, RoleRef, Subject
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.pki import FRONT_PROXY_CLIENT
from cathedra.apiserver.authentication.user import ANONYMOUS, LOOPBACK
from cathedra.apiserver.bootstrap.keeping import KeptObject
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.request import Call
from cathedra.apiserver.routes import NAMESPACES
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.create import create

CLUSTER_INFO: Final = "cluster-info"
_PUBLIC: Final = "kube-public"
_KUBECONFIG: Final = "kubeconfig"
_ROLE: Final = "kubeadm:bootstrap-signer-clusterinfo"
_RBAC: Final = "rbac.authorization.k8s.io"


def cluster_info(url: str, authority: bytes, others: Callable[[], Collection[str]] = tuple) -> Iterator[KeptObject]:
    """Yield the objects of a server that is reached at ``url``, with a certificate that ``authority`` (PEM) has signed.

    ``others`` returns the URLs of the servers that run. An address of one of them is left as it is.
    """

    def described_of(found: Any, wanted: Any) -> Any:
        """Return the map that is there with a right kubeconfig, and with its signatures."""
        # Servers of one store would otherwise overwrite each other's address for ever.
        known = {_kubeconfig(other, authority) for other in others()}
        return found if found.data.get(_KUBECONFIG) in known else replace(found, data={**found.data, **wanted.data})

    metadata = ObjectMeta(name=CLUSTER_INFO, namespace=_PUBLIC)
    described = ConfigMap(metadata=metadata, data={_KUBECONFIG: _kubeconfig(url, authority)})
    yield KeptObject(GroupResource("", "configmaps"), described, (), described_of)
    named = ObjectMeta(name=_ROLE, namespace=_PUBLIC)
    rule = PolicyRule(verbs=("get",), api_groups=("",), resources=("configmaps",), resource_names=(CLUSTER_INFO,))
    yield KeptObject(GroupResource(_RBAC, "roles"), Role(metadata=named, rules=(rule,)), ())
    binding = RoleBinding(
        metadata=named,
        role_ref=RoleRef(api_group=_RBAC, kind="Role", name=_ROLE),
        subjects=(Subject(api_group=_RBAC, kind="User", name=ANONYMOUS.name),),
    )
    yield KeptObject(GroupResource(_RBAC, "rolebindings"), binding, ())


def check_authority(registry: Registry, authority: bytes, folder: Path) -> None:
    """Refuse to serve a shared store with another authority (PEM) than that of the servers before, in ``folder``.

    Clients of either server would trust neither the other nor its tokens.

    Raises:
        StorageError: the store is that of a cluster with another authority.
    """
    found = registry.find(GroupResource("", "configmaps"), f"{_PUBLIC}/{CLUSTER_INFO}")
    _, _, rest = (found.data.get(_KUBECONFIG, "") if found else "").partition("certificate-authority-data: ")
    known = rest.partition("\n")[0]
    if registry.shared and known and known != base64.b64encode(authority).decode():
        raise StorageError(
            f"the store is that of a cluster with another certificate authority than {folder}: copy the folder pki of "
            "the first server's data directory there. If that is lost, remove the ConfigMap cluster-info in the "
            "namespace kube-public from the store, and this authority becomes that of the cluster"
        )


def _kubeconfig(url: str, authority: bytes) -> str:
    return (
        "apiVersion: v1\n"
        "clusters:\n"
        "- cluster:\n"
        f"    certificate-authority-data: {base64.b64encode(authority).decode()}\n"
        f"    server: {url}\n"
        '  name: ""\n'
        "contexts: null\n"
        'current-context: ""\n'
        "kind: Config\n"
        "preferences: {}\n"
        "users: null\n"
    )


# --- authentication -------------------------------------------------------------------------------------------------


AUTHENTICATION_INFO: Final = "extension-apiserver-authentication"


def authentication_info(authority: bytes, front_proxy: bytes) -> KeptObject:
    """Return the ConfigMap of a server that trusts clients' certificates which ``authority`` (PEM) has signed, and that
    passes requests on with a certificate of the authority ``front_proxy`` (PEM)."""
    config = ConfigMap(
        metadata=ObjectMeta(name=AUTHENTICATION_INFO, namespace="kube-system"),
        data={
            "client-ca-file": authority.decode(),
            "requestheader-allowed-names": json.dumps([FRONT_PROXY_CLIENT]),
            "requestheader-client-ca-file": front_proxy.decode(),
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        },
    )
    return KeptObject(GroupResource("", "configmaps"), config, ("data",))


SYSTEM_PUBLICS: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


async def create_namespaces(server: ServerContext) -> None:
    """Create those of the system's namespaces that are missing, all in one commit."""
    missing = [name for name in SYSTEM_PUBLICS if server.registry.find(NAMESPACES, name) is None]
    await asyncio.gather(*(_create(server, Namespace(metadata=ObjectMeta(name=name))) for name in missing))


async def _create(server: ServerContext, obj: KubeObject) -> None:
    definition = server.registry.table(NAMESPACES).definition
    call = Call.on(definition, definition.versions[0], user=LOOPBACK, verb="create")
    try:
        await create(server, call, obj)
    except StatusError as error:
        if not error.is_already_exists:  # another server on the same store was faster
            raise


SERVICE_ADDRESS: Final = "10.0.0.1"
"""The first address of kube-apiserver's default service network."""
SERVICE_NAMES: Final = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", SERVICE_ADDRESS)
"""Names that the server's certificate must have, beside its host."""

_NAMESPACE: Final = "default"
_NAME: Final = "kubernetes"


class Address(msgspec.Struct, frozen=True, order=True):
    """Host and port of an API server."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """Return the address of a text that `str` made; None if it is none."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port)) if host and port.isascii() and port.isdecimal() else None

    def __str__(self) -> str:
        """Return the address as URLs have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def kubernetes_service(port: int) -> KeptObject:
    """Return the Service of servers that are reached at a port."""
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
    return KeptObject(GroupResource("", "services"), service, ())


def kubernetes_endpoints(addresses: Sequence[Address]) -> Iterator[KeptObject]:
    """Return Endpoints and EndpointSlice of the servers at these addresses.

    A slice has one port and one kind of addresses. As in Kubernetes it has those of the first subset of the Endpoints.
    """
    by_port: dict[int, list[str]] = {}
    for address in addresses:
        by_port.setdefault(address.port, []).append(address.host)
    endpoints = Endpoints(
        metadata=_metadata({"endpointslice.kubernetes.io/skip-mirror": "true"}),
        subsets=tuple(
            EndpointSubset(
                addresses=tuple(EndpointAddress(ip=host) for host in hosts),
                ports=(EndpointPort(name="https", port=port, protocol="TCP"),),
            )
            for port, hosts in by_port.items()
        ),
    )
    yield KeptObject(GroupResource("", "endpoints"), endpoints, ("subsets",))
    port, hosts = next(iter(by_port.items()))
    family = _family(hosts[0])
    piece = discovery_v1.EndpointSlice(
        metadata=_metadata({"kubernetes.io/service-name": _NAME}),
        address_type=family,
        endpoints=tuple(
            discovery_v1.Endpoint(addresses=(host,), conditions=discovery_v1.EndpointConditions(ready=True))
            for host in hosts
            if _family(host) == family
        ),
        ports=(discovery_v1.EndpointPort(name="https", port=port, protocol="TCP"),),
    )
    yield KeptObject(GroupResource("discovery.k8s.io", "endpointslices"), piece, ("endpoints", "ports"))


def _family(host: str) -> str:
    return "IPv6" if ":" in host else "IPv4"


def _metadata(labels: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(name=_NAME, namespace=_NAMESPACE, labels=labels)
