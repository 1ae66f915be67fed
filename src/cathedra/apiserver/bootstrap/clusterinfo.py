"""ConfigMaps with public facts: ``kube-public/cluster-info`` and ``kube-system/extension-apiserver-authentication``.

The first is kubeadm's, for nodes that join: a kubeconfig without users, with the address of the API server and the
authority of its certificate. The bootstrap signer adds a signature for each bootstrap token that may sign. A Role lets
anonymous users read it, for those servers that take anonymous requests on that path.

The second is for servers that let the API server authenticate for them (metrics servers, webhooks with client
certificates, the health ports of scheduler and controller manager); the Role
``extension-apiserver-authentication-reader`` lets them read it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.rbac_v1 import PolicyRule, Role, RoleBinding, RoleRef, Subject
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.pki import FRONT_PROXY_CLIENT
from cathedra.apiserver.authentication.user import ANONYMOUS
from cathedra.apiserver.bootstrap.keeping import KeptObject

CLUSTER_INFO: Final = "cluster-info"
_NAMESPACE: Final = "kube-public"
_KUBECONFIG: Final = "kubeconfig"
_ROLE: Final = "kubeadm:bootstrap-signer-clusterinfo"
_RBAC: Final = "rbac.authorization.k8s.io"


def cluster_info(url: str, authority: bytes) -> Iterator[KeptObject]:
    """The objects of a server that is reached at ``url``, with a certificate that ``authority`` (PEM) has signed."""
    metadata = ObjectMeta(name=CLUSTER_INFO, namespace=_NAMESPACE)
    described = ConfigMap(metadata=metadata, data={_KUBECONFIG: _kubeconfig(url, authority)})
    yield KeptObject(GroupResource("", "configmaps"), described, (), _described)
    named = ObjectMeta(name=_ROLE, namespace=_NAMESPACE)
    rule = PolicyRule(verbs=("get",), api_groups=("",), resources=("configmaps",), resource_names=(CLUSTER_INFO,))
    yield KeptObject(GroupResource(_RBAC, "roles"), Role(metadata=named, rules=(rule,)), ())
    binding = RoleBinding(
        metadata=named,
        role_ref=RoleRef(api_group=_RBAC, kind="Role", name=_ROLE),
        subjects=(Subject(api_group=_RBAC, kind="User", name=ANONYMOUS.name),),
    )
    yield KeptObject(GroupResource(_RBAC, "rolebindings"), binding, ())


def _described(found: Any, wanted: Any) -> Any:
    """The map that is there with the right kubeconfig, and with its signatures."""
    return replace(found, data={**found.data, **wanted.data})


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
    """The ConfigMap of a server that trusts clients' certificates which ``authority`` (PEM) has signed, and that passes
    requests on with a certificate of the authority ``front_proxy`` (PEM)."""
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
