"""What node agents may do: read what their pods need, write their own node, lease and slices
(docs/spec/apimachinery.md §15.4; docs/spec/api.md §B.3).

What an authorizer cannot see, because it is in the object, `NodeRestriction` refuses at admission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import ALLOWED, NO_OPINION, Attributes, Decision, Verdict
from cathedra.apiserver.authorization.noderelations import NodeRelations
from cathedra.apiserver.authorization.policyrules import allows
from cathedra.apiserver.registry.selection import parse_field_terms

__all__ = ["NODES_GROUP", "NODE_PREFIX", "NodeAuthorizer", "node_of"]

NODES_GROUP: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
_LEASES: Final = "kube-node-lease"


def node_of(user: UserInfo) -> str | None:
    """The node whose agent the user is; None if he is no node agent at all, "" if he does not say which."""
    if not user.name.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name.removeprefix(NODE_PREFIX)


class NodeAuthorizer:
    """Decides about requests of node agents; has no opinion on others."""

    def __init__(self, relations: NodeRelations, rules: tuple[PolicyRule, ...], *, by_selector: bool = True) -> None:
        self._relations = relations
        self._rules = rules
        self._by_selector = by_selector
        self._deciders: Mapping[tuple[str, str], Callable[[str, Attributes], Decision]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._volume_claim,
            ("", "persistentvolumes"): self._get,
            ("", "serviceaccounts"): self._token,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("coordination.k8s.io", "leases"): self._lease,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._slice,
        }

    def authorize(self, attributes: Attributes) -> Decision:
        """What the node may do by itself; "no opinion" leaves it to its roles, of which it has none by default."""
        node = node_of(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f'unknown node for user "{attributes.user.name}"')
        decide = None if attributes.path else self._deciders.get((attributes.group, attributes.resource))
        if decide is not None:
            return decide(node, attributes)
        return ALLOWED if any(allows(rule, attributes) for rule in self._rules) else NO_OPINION

    def _related(self, node: str, asked: Attributes) -> Decision:
        if not asked.name:
            return _no("No Object name found")
        relations = self._relations
        if asked.resource == "persistentvolumes":
            related = relations.volume(node, asked.name)
        elif asked.resource == "volumeattachments":
            related = relations.attachment(node, asked.name)
        elif asked.resource == "resourceslices":
            related = relations.resource_slice(node, asked.name)
        else:
            related = relations.referenced(node, asked.resource, asked.namespace, asked.name)
        return ALLOWED if related else _no(f"no relationship found between node '{node}' and this object")

    def _read(self, node: str, asked: Attributes) -> Decision:
        if asked.verb not in {"get", "list", "watch"}:
            return _no("can only read resources of this type")
        if asked.subresource:
            return _no("cannot read subresource")
        if not asked.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, asked)

    def _get(self, node: str, asked: Attributes) -> Decision:
        if asked.verb != "get":
            return _no("can only get individual resources of this type")
        if asked.subresource:
            return _no("cannot get subresource")
        return self._related(node, asked)

    def _volume_claim(self, node: str, asked: Attributes) -> Decision:
        if asked.subresource != "status":
            return self._get(node, asked)
        if asked.verb not in {"get", "update", "patch"}:
            return _no("can only get/update/patch this type")
        return self._related(node, asked)

    def _token(self, node: str, asked: Attributes) -> Decision:
        if asked.verb != "create" or not asked.name:
            return _no("can only create tokens for individual service accounts")
        if asked.subresource != "token":
            return _no("can only create token subresource of service account")
        return self._related(node, asked)

    def _lease(self, node: str, asked: Attributes) -> Decision:
        if asked.verb not in {"get", "create", "update", "patch", "delete"}:
            return _no("can only get, create, update, patch, or delete a node lease")
        if asked.namespace != _LEASES:
            return _no(f'can only access leases in the "{_LEASES}" system namespace')
        if asked.verb != "create" and asked.name != node:
            return _no("can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csi_node(self, node: str, asked: Attributes) -> Decision:
        if asked.verb not in {"get", "create", "update", "patch", "delete"}:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if asked.subresource:
            return _no("cannot authorize CSINode subresources")
        if asked.verb != "create" and asked.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return ALLOWED

    def _slice(self, node: str, asked: Attributes) -> Decision:
        if asked.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if asked.verb == "create":
            return ALLOWED
        if asked.verb in {"get", "update", "patch", "delete"}:
            return self._related(node, asked)
        if asked.verb not in {"list", "watch", "deletecollection"}:
            return _no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, "
                "delete, deletecollection"
            )
        if not self._by_selector or _selects_node(asked, node):
            return ALLOWED
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _node(self, node: str, asked: Attributes) -> Decision:
        writes = asked.verb in {"update", "patch"}
        if asked.subresource:
            return ALLOWED if asked.subresource == "status" and writes else NO_OPINION
        if writes or asked.verb == "create":
            return ALLOWED
        if asked.verb not in {"get", "list", "watch"}:
            return NO_OPINION
        if asked.name == node or not self._by_selector:
            return ALLOWED
        which = f"'{asked.name}'" if asked.name else "all nodes"
        return _no(f"node '{node}' cannot read {which}, only its own Node object")

    def _pod(self, node: str, asked: Attributes) -> Decision:
        if asked.subresource:
            verbs = {"status": ("update", "patch"), "eviction": ("create",)}.get(asked.subresource, ())
            return ALLOWED if asked.verb in verbs else NO_OPINION
        if asked.verb in {"create", "delete"}:
            return ALLOWED
        if asked.verb not in {"get", "list", "watch"}:
            return NO_OPINION
        if not self._by_selector or _selects_node(asked, node):
            return ALLOWED
        if asked.verb != "get" and not asked.name:
            return _no("can only list/watch pods with spec.nodeName field selector")
        return self._related(node, asked)


def _no(why: str) -> Decision:
    return Decision(Verdict.NO_OPINION, why)


def _selects_node(asked: Attributes, node: str) -> bool:
    if not asked.field_selector:
        return False
    try:
        terms = parse_field_terms(asked.field_selector)
    except StatusError:
        return False  # the verb itself will say what is wrong with the selector
    return any(term.field == "spec.nodeName" and term.value == node and not term.negated for term in terms)
