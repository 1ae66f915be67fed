"""What is told of the cluster to those who join it: ConfigMap ``kube-public/cluster-info``, as kubeadm makes it.

It holds a kubeconfig without users: where the API server is, and whose certificates to trust. The bootstrap signer adds
a signature for each bootstrap token that may sign; a Role lets anonymous users read it, for those servers that take
anonymous requests on that path.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.rbac_v1 import PolicyRule, Role, RoleBinding, RoleRef, Subject
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import ANONYMOUS
from cathedra.apiserver.bootstrap.keeping import KeptObject

__all__ = ["CLUSTER_INFO", "cluster_info"]

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
