"""What other servers may know of authentication: a ConfigMap with the authority of client certificates.

Servers that let the API server authenticate for them (metrics servers, webhooks with client certificates, the health
ports of scheduler and controller manager) read ``kube-system/extension-apiserver-authentication``; the Role
``extension-apiserver-authentication-reader`` lets them.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.bootstrap.keeping import KeptObject

__all__ = ["AUTHENTICATION_INFO", "authentication_info"]

AUTHENTICATION_INFO: Final = "extension-apiserver-authentication"


def authentication_info(authority: bytes) -> KeptObject:
    """The ConfigMap of a server that trusts clients' certificates which ``authority`` (PEM) has signed."""
    config = ConfigMap(
        metadata=ObjectMeta(name=AUTHENTICATION_INFO, namespace="kube-system"),
        data={"client-ca-file": authority.decode()},
    )
    return KeptObject(GroupResource("", "configmaps"), config, ("data",))
