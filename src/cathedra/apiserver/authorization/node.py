"""The node authorizer: node agents read what their pods need, and write their own node, lease and slices
(docs/spec/apimachinery.md §15.4; docs/spec/api.md §B.3).

An authorizer does not see the object that is written. What depends on it, `NodeRestriction` refuses at admission.
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

NODES_GROUP: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
_LEASES: Final = "kube-node-lease"


def node_of(user: UserInfo) -> str | None:
    """Return the node of a node agent; None for other users, "" if the user name has no node in it."""
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
        """Allow the requests of a node. "No opinion" leaves them to RBAC, which has no roles for nodes by default."""
        node = node_of(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f'unknown node for user "{attributes.user.name}"')
        decide = None if attributes.path else self._deciders.get((attributes.group, attributes.resource))
        if decide is not None:
            return decide(node, attributes)
        return ALLOWED if any(allows(rule, attributes) for rule in self._rules) else NO_OPINION

    def _related(self, node: str, attributes: Attributes) -> Decision:
        if not attributes.name:
            return _no("No Object name found")
        relations = self._relations
        if attributes.resource == "persistentvolumes":
            related = relations.volume(node, attributes.name)
        elif attributes.resource == "volumeattachments":
            related = relations.attachment(node, attributes.name)
        elif attributes.resource == "resourceslices":
            related = relations.resource_slice(node, attributes.name)
        else:
            related = relations.referenced(node, attributes.resource, attributes.namespace, attributes.name)
        return ALLOWED if related else _no(f"no relationship found between node '{node}' and this object")

    def _read(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in {"get", "list", "watch"}:
            return _no("can only read resources of this type")
        if attributes.subresource:
            return _no("cannot read subresource")
        if not attributes.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, attributes)

    def _get(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb != "get":
            return _no("can only get individual resources of this type")
        if attributes.subresource:
            return _no("cannot get subresource")
        return self._related(node, attributes)

    def _volume_claim(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource != "status":
            return self._get(node, attributes)
        if attributes.verb not in {"get", "update", "patch"}:
            return _no("can only get/update/patch this type")
        return self._related(node, attributes)

    def _token(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb != "create" or not attributes.name:
            return _no("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no("can only create token subresource of service account")
        return self._related(node, attributes)

    def _lease(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in {"get", "create", "update", "patch", "delete"}:
            return _no("can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != _LEASES:
            return _no(f'can only access leases in the "{_LEASES}" system namespace')
        if attributes.verb != "create" and attributes.name != node:
            return _no("can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csi_node(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in {"get", "create", "update", "patch", "delete"}:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return _no("cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return ALLOWED

    def _slice(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if attributes.verb == "create":
            return ALLOWED  # the node is in the object: NodeRestriction checks it
        if attributes.verb in {"get", "update", "patch", "delete"}:
            return self._related(node, attributes)
        if attributes.verb not in {"list", "watch", "deletecollection"}:
            return _no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, "
                "delete, deletecollection"
            )
        if not self._by_selector or _selects_node(attributes, node):
            return ALLOWED
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _node(self, node: str, attributes: Attributes) -> Decision:
        writes = attributes.verb in {"update", "patch"}
        if attributes.subresource:
            return ALLOWED if attributes.subresource == "status" and writes else NO_OPINION
        if writes or attributes.verb == "create":
            return ALLOWED
        if attributes.verb not in {"get", "list", "watch"}:
            return NO_OPINION
        if attributes.name == node or not self._by_selector:
            return ALLOWED
        which = f"'{attributes.name}'" if attributes.name else "all nodes"
        return _no(f"node '{node}' cannot read {which}, only its own Node object")

    def _pod(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource:
            verbs = {"status": ("update", "patch"), "eviction": ("create",)}.get(attributes.subresource, ())
            return ALLOWED if attributes.verb in verbs else NO_OPINION
        if attributes.verb in {"create", "delete"}:
            return ALLOWED
        if attributes.verb not in {"get", "list", "watch"}:
            return NO_OPINION
        # With the selector a node watches its own pods and no others. Before 1.32 it could list all of them.
        if not self._by_selector or _selects_node(attributes, node):
            return ALLOWED
        if attributes.verb != "get" and not attributes.name:
            return _no("can only list/watch pods with spec.nodeName field selector")
        return self._related(node, attributes)


def _no(why: str) -> Decision:
    return Decision(Verdict.NO_OPINION, why)


def _selects_node(attributes: Attributes, node: str) -> bool:
    if not attributes.field_selector:
        return False
    try:
        terms = parse_field_terms(attributes.field_selector)
    except StatusError:
        return False  # the verb refuses the selector, with Kubernetes' text
    return any(term.field == "spec.nodeName" and term.value == node and not term.negated for term in terms)
