"""A node agent writes its own node, its pods' status, its lease and its slices, and nothing of another node (plugin
NodeRestriction; docs/spec/apimachinery.md §16.3; docs/spec/api.md §B.3).

The node authorizer decides by the path of a request; this plugin checks the objects themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cathedra.api.core.authentication_v1 import TokenRequest
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, conflict, forbidden, not_found
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.authorization.node import NODE_PREFIX, node_of
from cathedra.apiserver.authorization.noderelations import node_of_slice, references
from cathedra.apiserver.registry.registry import Registry
from cathedra.semantics.pods import MIRROR_ANNOTATION, is_mirror

_NODES: Final = GroupResource("", "nodes")
_PODS: Final = GroupResource("", "pods")
_LEASE_NAMESPACE: Final = "kube-node-lease"
_RESTRICTED: Final = "node-restriction.kubernetes.io"
_OWN_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
"""Labels of Kubernetes' own domains that a node may set on itself."""
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_REFERENCES: Final = ("secrets", "configmaps", "persistentvolumeclaims", "resourceclaims")
"""The references that a mirror pod must not have, in the order of Kubernetes' checks."""

Check = Callable[[AdmissionAttributes, str], None]


class NodeRestriction(AdmissionPlugin):
    """Refuses writes by which a node agent would affect other nodes or their pods."""

    users = NODE_PREFIX  # `admit` reads the groups as well

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._checks: Mapping[tuple[str, str], Check] = {
            ("", "pods"): self._pod,
            ("", "nodes"): self._node,
            ("", "persistentvolumeclaims"): self._volume_claim,
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("resource.k8s.io", "resourceslices"): self._slice,
        }

    def admit(self, request: AdmissionAttributes) -> Any:
        """Check that a node writes only its own objects.

        Raises:
            StatusError: 403, the object belongs to another node; 404, its pod is missing.
        """
        node = node_of(request.user)
        if node is None:
            return request.object
        if not node:
            raise _refused(request, f'could not determine node from user "{request.user.name}"')
        check = self._checks.get((request.definition.group, request.definition.plural))
        if check is not None:
            check(request, node)
        return request.object

    def _pod(self, request: AdmissionAttributes, node: str) -> None:
        if request.subresource == "status":
            self._pod_status(request, node)
        elif request.subresource == "eviction":
            if request.operation != "CREATE":
                raise _refused(request, f"unexpected operation {request.operation} for pod eviction")
            if self._stored_pod(request).spec.node_name != node:
                raise _refused(request, f"node {node} can only evict pods with spec.nodeName set to itself")
        elif request.subresource:
            raise _refused(
                request,
                f"unexpected pod subresource \"{request.subresource}\", only 'status' and 'eviction' are allowed",
            )
        elif request.operation == "CREATE":
            self._mirror_pod(request, node)
        elif request.operation == "DELETE":
            if request.old_object.spec.node_name != node:
                raise _refused(request, f'node "{node}" can only delete pods with spec.nodeName set to itself')
        else:
            raise _refused(
                request,
                f'unexpected operation "{request.operation}", node "{node}" can only create and delete mirror pods',
            )

    def _mirror_pod(self, request: AdmissionAttributes, node: str) -> None:
        pod: Pod = request.object
        if not is_mirror(pod):
            raise _refused(
                request,
                f'pod does not have "{MIRROR_ANNOTATION}" annotation, node "{node}" can only create mirror pods',
            )
        spec: Any = pod.spec
        if spec.node_name != node:
            raise _refused(request, f'node "{node}" can only create pods with spec.nodeName set to itself')
        self._check_owner(request, pod, node)
        # A mirror pod gives its node the right to read what the pod refers to, so it may refer to nothing.
        if spec.service_account_name:
            raise _refused(request, f'node "{node}" can not create pods that reference a service account')
        referenced = {resource for resource, _ in references(pod)}
        referenced.update("resourceclaims" for _ in spec.resource_claims)
        for resource in _REFERENCES:
            if resource in referenced:
                raise _refused(request, f'node "{node}" can not create pods that reference {resource}')

    def _check_owner(self, request: AdmissionAttributes, pod: Pod, node: str) -> None:
        owners = pod.metadata.owner_references
        if len(owners) > 1:
            raise _refused(request, f'node "{node}" can only create pods with a single owner reference set to itself')
        if not owners or (owners[0].api_version, owners[0].kind, owners[0].name) != ("v1", "Node", node):
            raise _refused(request, f'node "{node}" can only create pods with an owner reference set to itself')
        owner = owners[0]
        if not owner.controller:
            raise _refused(
                request, f'node "{node}" can only create pods with a controller owner reference set to itself'
            )
        if owner.block_owner_deletion:
            raise _refused(request, f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        found = self._registry.find(_NODES, node)
        if found is None:
            raise not_found(_NODES, node)
        if owner.uid != found.metadata.uid:
            raise _refused(request, f"node {node} UID mismatch: expected {found.metadata.uid} got {owner.uid}")

    def _pod_status(self, request: AdmissionAttributes, node: str) -> None:
        if request.operation != "UPDATE":
            raise _refused(
                request, f'unexpected operation "{request.operation}", node "{node}" can only update pod status'
            )
        new, old = request.object, request.old_object
        if old.spec.node_name != node:
            raise _refused(
                request, f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
            )
        if new.metadata.labels != old.metadata.labels:
            raise _refused(request, f'node "{node}" cannot update labels through pod status')
        if new.metadata.owner_references != old.metadata.owner_references:
            raise _refused(request, f'node "{node}" cannot update owner references through pod status')
        # These name claims: a node that sets them could read claims of pods on other nodes.
        if new.status.resource_claim_statuses != old.status.resource_claim_statuses:
            raise _refused(request, f'node "{node}" cannot update resource claim statues')
        if new.status.extended_resource_claim_status != old.status.extended_resource_claim_status:
            raise _refused(request, f'node "{node}" cannot update extended resource claim status')

    def _node(self, request: AdmissionAttributes, node: str) -> None:
        if request.name != node:
            raise _refused(request, f'node "{node}" is not allowed to modify node "{request.name}"')
        new: Node | None = request.object
        if new is None:
            return
        if request.operation == "CREATE":
            denied = _denied_labels(new.metadata.labels, {})
            if denied:
                raise _refused(request, f'node "{node}" is not allowed to set the following labels: {denied}')
            return
        old: Node = request.old_object
        # With its taints a node would decide which pods it gets, and with its labels, too.
        if _taints(new) != _taints(old):
            raise _refused(request, f'node "{node}" is not allowed to modify taints')
        denied = _denied_labels(new.metadata.labels, old.metadata.labels)
        if denied:
            raise _refused(request, f"is not allowed to modify labels: {denied}")
        if new.metadata.owner_references != old.metadata.owner_references:
            raise _refused(request, f'node "{node}" is not allowed to modify ownerReferences')

    def _volume_claim(self, request: AdmissionAttributes, node: str) -> None:
        if request.subresource != "status":
            raise _refused(request, "may only update PVC status")
        if request.operation != "UPDATE":
            raise _refused(
                request, f'unexpected operation "{request.operation}", node "{node}" may only update PVC status'
            )

    def _service_account(self, request: AdmissionAttributes, node: str) -> None:
        if request.operation != "CREATE" or request.subresource != "token":
            return
        wanted: TokenRequest = request.object
        bound = wanted.spec.bound_object_ref
        if bound is None or (bound.api_version, bound.kind) != ("v1", "Pod") or not bound.name:
            raise _refused(request, "node requested token not bound to a pod")
        # Without the uid the token would still be valid for a pod that is created later under the same name.
        if not bound.uid:
            raise _refused(request, "node requested token with a pod binding without a uid")
        pod: Pod | None = self._registry.find(_PODS, f"{request.namespace}/{bound.name}")
        if pod is None:
            raise not_found(_PODS, bound.name)
        if pod.metadata.uid != bound.uid:
            raise conflict(
                request.definition.group_resource,
                request.name,
                f"the UID in the bound object reference ({bound.uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        if pod.spec is None or pod.spec.node_name != node:
            raise _refused(request, "node requested token bound to a pod scheduled on a different node")

    def _lease(self, request: AdmissionAttributes, node: str) -> None:
        if request.namespace != _LEASE_NAMESPACE:
            raise _refused(request, f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace')
        if request.name != node:
            raise _refused(request, "can only access node lease with the same name as the requesting node")

    def _csi_node(self, request: AdmissionAttributes, node: str) -> None:
        if request.name != node:
            raise _refused(request, "can only access CSINode with the same name as the requesting node")

    def _slice(self, request: AdmissionAttributes, node: str) -> None:
        if request.operation == "CREATE" and node_of_slice(request.object) != node:
            raise _refused(request, "can only create ResourceSlice with the same NodeName as the requesting node")
        if request.operation == "DELETE" and node_of_slice(request.old_object) != node:
            raise _refused(request, "can only delete ResourceSlice with the same NodeName as the requesting node")

    def _stored_pod(self, request: AdmissionAttributes) -> Any:
        pod = self._registry.find(_PODS, f"{request.namespace}/{request.name}")
        if pod is None:
            raise not_found(_PODS, request.name)
        return pod


def _refused(request: AdmissionAttributes, why: str) -> StatusError:
    return forbidden(request.definition.group_resource, request.name, why)


def _taints(node: Node) -> tuple[Any, ...]:
    return node.spec.taints if node.spec is not None else ()


def _denied_labels(new: Mapping[str, str], old: Mapping[str, str]) -> str:
    """Return the keys of the changed labels that a node may not touch, sorted, as one text."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return ", ".join(sorted(_denied(changed)))


def _denied(labels: Iterable[str]) -> Iterable[str]:
    for label in labels:
        domain = label.partition("/")[0] if "/" in label else ""
        kubernetes = _within(domain, "kubernetes.io") or _within(domain, "k8s.io")
        own = label in _OWN_LABELS or any(_within(domain, one) for one in _OWN_DOMAINS)
        if _within(domain, _RESTRICTED) or (kubernetes and not own):
            yield label


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
