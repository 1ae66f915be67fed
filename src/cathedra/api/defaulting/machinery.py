"""Defaults of the small kinds: namespaces, secrets, services, roles, admission, storage."""

from __future__ import annotations

from typing import Any, TypeVar

from cathedra.api.core import admissionregistration_v1, core_v1, meta_v1, rbac_v1, scheduling_v1
from cathedra.api.struct import KubeStruct, replace

T = TypeVar("T", bound=KubeStruct)
_RBAC = "rbac.authorization.k8s.io"


def _absent(obj: Any, **defaults: Any) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if getattr(obj, name) in ("", None)}


def default_namespace(namespace: core_v1.Namespace) -> core_v1.Namespace:
    """A namespace labelled with its own name."""
    name = namespace.metadata.name
    status = replace(namespace.status, **_absent(namespace.status, phase="Active"))
    if not name:
        return replace(namespace, status=status)
    labels = {**namespace.metadata.labels, "kubernetes.io/metadata.name": name}
    return replace(namespace, metadata=replace(namespace.metadata, labels=labels), status=status)


def default_secret(secret: core_v1.Secret) -> core_v1.Secret:
    """An opaque secret; plain texts of ``stringData`` join the data."""
    merged = {**secret.data, **{key: text.encode() for key, text in secret.string_data.items()}}
    return replace(secret, type=secret.type or "Opaque", data=merged, string_data={})


def default_service(service: core_v1.Service) -> core_v1.Service:
    """A service inside the cluster, reached at the ports of its pods."""
    spec = service.spec
    changes: dict[str, Any] = _absent(spec, type="ClusterIP", session_affinity="None")
    kind = spec.type or "ClusterIP"
    if kind != "ExternalName":
        changes |= _absent(spec, internal_traffic_policy="Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        changes |= _absent(spec, external_traffic_policy="Cluster")
    if kind == "LoadBalancer":
        changes |= _absent(spec, allocate_load_balancer_node_ports=True)
    changes["ports"] = tuple(_service_port(port) for port in spec.ports)
    return replace(service, spec=replace(spec, **changes))


def _service_port(port: core_v1.ServicePort) -> core_v1.ServicePort:
    changes: dict[str, Any] = _absent(port, protocol="TCP")
    if port.target_port in ("", 0):
        changes["target_port"] = port.port
    return replace(port, **changes)


def default_volume_claim(claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolumeClaim:
    """A claim on a volume with a file system."""
    status = replace(claim.status, **_absent(claim.status, phase="Pending"))
    return replace(claim, spec=replace(claim.spec, **_absent(claim.spec, volume_mode="Filesystem")), status=status)


def default_volume(volume: core_v1.PersistentVolume) -> core_v1.PersistentVolume:
    """A volume that is kept when its claim goes."""
    changes = _absent(volume.spec, volume_mode="Filesystem", persistent_volume_reclaim_policy="Retain")
    status = replace(volume.status, **_absent(volume.status, phase="Pending"))
    return replace(volume, spec=replace(volume.spec, **changes), status=status)


def default_role_binding(binding: rbac_v1.RoleBinding) -> rbac_v1.RoleBinding:
    """Groups of the reference and the subjects."""
    bound: rbac_v1.RoleBinding = _bound(binding)
    return bound


def default_cluster_role_binding(binding: rbac_v1.ClusterRoleBinding) -> rbac_v1.ClusterRoleBinding:
    """Groups of the reference and the subjects."""
    bound: rbac_v1.ClusterRoleBinding = _bound(binding)
    return bound


def _bound(binding: Any) -> Any:
    subjects = tuple(_subject(subject) for subject in binding.subjects)
    reference = replace(binding.role_ref, **_absent(binding.role_ref, api_group=_RBAC))
    return replace(binding, subjects=subjects, role_ref=reference)


def _subject(subject: rbac_v1.Subject) -> rbac_v1.Subject:
    if subject.kind in ("User", "Group") and not subject.api_group:
        return replace(subject, api_group=_RBAC)
    return subject


def default_priority_class(priority: scheduling_v1.PriorityClass) -> scheduling_v1.PriorityClass:
    """A priority that may push out lower ones."""
    return replace(priority, **_absent(priority, preemption_policy="PreemptLowerPriority"))


def default_policy(
    policy: admissionregistration_v1.ValidatingAdmissionPolicy,
) -> admissionregistration_v1.ValidatingAdmissionPolicy:
    """A policy that refuses when it cannot be evaluated."""
    spec = policy.spec
    changes: dict[str, Any] = _absent(spec, failure_policy="Fail")
    if spec.match_constraints is not None:
        changes["match_constraints"] = _match_resources(spec.match_constraints)
    return replace(policy, spec=replace(spec, **changes))


def default_policy_binding(
    binding: admissionregistration_v1.ValidatingAdmissionPolicyBinding,
) -> admissionregistration_v1.ValidatingAdmissionPolicyBinding:
    """A binding that matches by equivalence."""
    if binding.spec.match_resources is None:
        return binding
    return replace(binding, spec=replace(binding.spec, match_resources=_match_resources(binding.spec.match_resources)))


def _match_resources(match: admissionregistration_v1.MatchResources) -> admissionregistration_v1.MatchResources:
    return replace(
        match,
        resource_rules=tuple(_scoped(rule) for rule in match.resource_rules),
        exclude_resource_rules=tuple(_scoped(rule) for rule in match.exclude_resource_rules),
        **_selectors(match),
    )


def _selectors(obj: Any) -> dict[str, Any]:
    return _absent(
        obj,
        match_policy="Equivalent",
        namespace_selector=meta_v1.LabelSelector(),
        object_selector=meta_v1.LabelSelector(),
    )


def _scoped(rule: Any) -> Any:
    return replace(rule, **_absent(rule, scope="*"))


def default_webhooks(configuration: T) -> T:
    """Webhooks that fail closed after ten seconds."""
    hooks = getattr(configuration, "webhooks", ())
    return replace(configuration, webhooks=tuple(_webhook(hook) for hook in hooks))


def _webhook(hook: Any) -> Any:
    changes = _absent(hook, failure_policy="Fail", timeout_seconds=10) | _selectors(hook)
    if hasattr(hook, "reinvocation_policy"):
        changes |= _absent(hook, reinvocation_policy="Never")
    service = hook.client_config.service
    if service is not None and service.port is None:
        changes["client_config"] = replace(hook.client_config, service=replace(service, port=443))
    return replace(hook, rules=tuple(_scoped(rule) for rule in hook.rules), **changes)
