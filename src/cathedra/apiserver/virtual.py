"""Resources and sub-resources that are no stored objects: reviews, bindings, streams (spec: apimachinery.md, section
2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CONNECTED", "VIRTUAL", "VirtualResource"]


@dataclass(frozen=True, slots=True)
class VirtualResource:
    """A resource that is only asked, never stored."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ("create",)
    short_names: tuple[str, ...] = ()


_AUTHN: Final = "authentication.k8s.io"
_AUTHZ: Final = "authorization.k8s.io"

VIRTUAL: Final = (
    VirtualResource("", "v1", "bindings", "binding", "Binding", True),
    VirtualResource(
        "", "v1", "componentstatuses", "componentstatus", "ComponentStatus", False, ("get", "list"), ("cs",)
    ),
    VirtualResource(_AUTHN, "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", False),
    VirtualResource(_AUTHN, "v1", "tokenreviews", "tokenreview", "TokenReview", False),
    VirtualResource(
        _AUTHZ, "v1", "localsubjectaccessreviews", "localsubjectaccessreview", "LocalSubjectAccessReview", True
    ),
    VirtualResource(
        _AUTHZ, "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview", False
    ),
    VirtualResource(_AUTHZ, "v1", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview", False),
    VirtualResource(_AUTHZ, "v1", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview", False),
)

Kind = tuple[str, str, str]
_STREAM: Final = ("create", "get")
_PROXY: Final = ("create", "delete", "get", "patch", "update")

CONNECTED: Final[dict[tuple[str, str], tuple[tuple[str, Kind, tuple[str, ...]], ...]]] = {
    ("", "pods"): (
        ("attach", ("", "", "PodAttachOptions"), _STREAM),
        ("binding", ("", "", "Binding"), ("create",)),
        ("eviction", ("policy", "v1", "Eviction"), ("create",)),
        ("exec", ("", "", "PodExecOptions"), _STREAM),
        ("log", ("", "", "Pod"), ("get",)),
        ("portforward", ("", "", "PodPortForwardOptions"), _STREAM),
        ("proxy", ("", "", "PodProxyOptions"), _PROXY),
    ),
    ("", "nodes"): (("proxy", ("", "", "NodeProxyOptions"), _PROXY),),
    ("", "services"): (("proxy", ("", "", "ServiceProxyOptions"), _PROXY),),
    ("", "namespaces"): (("finalize", ("", "", "Namespace"), ("update",)),),
    ("", "serviceaccounts"): (("token", (_AUTHN, "v1", "TokenRequest"), ("create",)),),
    ("", "replicationcontrollers"): (("scale", ("autoscaling", "v1", "Scale"), ("get", "patch", "update")),),
    ("apps", "deployments"): (("scale", ("autoscaling", "v1", "Scale"), ("get", "patch", "update")),),
    ("apps", "replicasets"): (("scale", ("autoscaling", "v1", "Scale"), ("get", "patch", "update")),),
    ("apps", "statefulsets"): (("scale", ("autoscaling", "v1", "Scale"), ("get", "patch", "update")),),
}
"""Sub-resources with kinds of their own: (group, resource) → name, kind, verbs. An empty version means the
resource's own."""
