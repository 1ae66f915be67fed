"""TaintNodesByCondition: no pod comes to a node before the node lifecycle controller has seen that it is ready."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.core_v1 import Node, Taint
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin

_NODES: Final = GroupResource("", "nodes")
NOT_READY: Final = "node.kubernetes.io/not-ready"


class TaintNodesByCondition(AdmissionPlugin):
    """Gives every new node the taint that the controller takes away from ready ones."""

    kinds = frozenset({_NODES})

    def admit(self, request: AdmissionAttributes) -> Any:
        """Add ``node.kubernetes.io/not-ready:NoSchedule`` to a node that is created without it."""
        if request.subresource or request.operation != "CREATE":
            return request.object
        node: Node = request.object
        if any((taint.key, taint.effect) == (NOT_READY, "NoSchedule") for taint in node.spec.taints):
            return node
        taints = (*node.spec.taints, Taint(key=NOT_READY, effect="NoSchedule"))
        return replace(node, spec=replace(node.spec, taints=taints))
