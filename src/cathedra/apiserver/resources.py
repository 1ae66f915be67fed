"""Resources that the server itself refers to by name."""

from __future__ import annotations

from typing import Final

from cathedra.api.scheme import GroupResource

__all__ = ["NAMESPACES", "NODES", "PODS", "SERVICES", "SERVICE_ACCOUNTS"]

NAMESPACES: Final = GroupResource("", "namespaces")
NODES: Final = GroupResource("", "nodes")
PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")
SERVICE_ACCOUNTS: Final = GroupResource("", "serviceaccounts")
