"""What other servers may know of authentication: a ConfigMap with the authority of client certificates.

Servers that let the API server authenticate for them (metrics servers, webhooks with client certificates, the health
ports of scheduler and controller manager) read ``kube-system/extension-apiserver-authentication``; the Role
``extension-apiserver-authentication-reader`` lets them.
"""

from __future__ import annotations

import json
from typing import Final

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.authentication.pki import FRONT_PROXY_CLIENT
from cathedra.apiserver.bootstrap.keeping import KeptObject

__all__ = ["AUTHENTICATION_INFO", "authentication_info"]

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
