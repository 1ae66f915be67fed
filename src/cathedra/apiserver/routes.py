"""The routes of the API: every resource and sub-resource that is served, with its verbs
(docs/spec/apimachinery.md §2.3), in the order of a stock server (§2.1).

Requests are dispatched by these routes and discovery lists them. Nothing can be reached that is not listed, and a
sub-resource can be reached only through its own group, version and resource.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from cathedra.api.scheme import GroupResource
from cathedra.kinds.definition import AnyDefinition, Strategy, VersionDefinition

_GROUPS: Final = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
)
_RANK: Final = {group: position for position, group in enumerate(_GROUPS)}
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
NAMESPACES: Final = GroupResource("", "namespaces")
NODES: Final = GroupResource("", "nodes")
PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")


class VirtualResource(msgspec.Struct, frozen=True):
    """A resource without stored objects: its requests are answered and nothing is kept."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ("create",)
    short_names: tuple[str, ...] = ()
    served_by_default: bool = True


METRICS_GROUP: Final = "metrics.k8s.io"
"""The group of measured usage. It does not belong to kube-apiserver: a server that is configured to serves it
instead of a metrics server.
"""
_AUTHN: Final = "authentication.k8s.io"
_AUTHZ: Final = "authorization.k8s.io"

VIRTUAL: Final = (
    VirtualResource("", "v1", "bindings", "binding", "Binding", True),
    VirtualResource(
        "", "v1", "componentstatuses", "componentstatus", "ComponentStatus", False, ("get", "list"), ("cs",)
    ),
    *(
        VirtualResource(
            _AUTHN,
            version,
            "selfsubjectreviews",
            "selfsubjectreview",
            "SelfSubjectReview",
            False,
            served_by_default=version == "v1",
        )
        for version in ("v1", "v1beta1", "v1alpha1")
    ),
    VirtualResource(_AUTHN, "v1", "tokenreviews", "tokenreview", "TokenReview", False),
    VirtualResource(
        _AUTHZ, "v1", "localsubjectaccessreviews", "localsubjectaccessreview", "LocalSubjectAccessReview", True
    ),
    VirtualResource(
        _AUTHZ, "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview", False
    ),
    VirtualResource(_AUTHZ, "v1", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview", False),
    VirtualResource(_AUTHZ, "v1", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview", False),
    *(
        VirtualResource(
            METRICS_GROUP, "v1beta1", plural, "", kind, namespaced, ("get", "list"), served_by_default=False
        )
        for plural, kind, namespaced in (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True))
    ),
)

Kind = tuple[str, str, str]


class Route(msgspec.Struct, frozen=True):
    """A resource or sub-resource in one version, with the verbs that it knows."""

    group: str
    version: str
    resource: str
    subresource: str
    namespaced: bool
    kind: Kind
    """Group, version and kind of the objects that are sent and answered. Empty group and version mean those of the
    resource."""
    verbs: tuple[str, ...]
    definition: AnyDefinition | None = None
    """The definition; None for resources without stored objects."""
    served: VersionDefinition | None = None
    strategy: Strategy[Any] | None = None
    """The rules for writes, if there is a definition."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Group, version, resource and sub-resource, by which requests find it."""
        return self.group, self.version, self.resource, self.subresource


def virtual_routes(resources: Iterable[VirtualResource]) -> Iterator[Route]:
    """Yield the routes of resources without stored objects."""
    for virtual in resources:
        kind = (virtual.group, virtual.version, virtual.kind)
        yield Route(virtual.group, virtual.version, virtual.plural, "", virtual.namespaced, kind, virtual.verbs)


def routes_of(definition: AnyDefinition, served: VersionDefinition) -> Iterator[Route]:
    """Yield the routes of a resource in one version: its own, then those of its sub-resources by name."""

    def route(subresource: str, kind: Kind, verbs: tuple[str, ...]) -> Route:
        names = (definition.group, served.name, definition.plural, subresource)
        strategy = definition.strategy_of(subresource)
        return Route(*names, definition.namespaced, kind, verbs, definition, served, strategy)

    yield route("", ("", "", definition.kind), tuple(sorted(definition.verbs)))
    found: dict[str, tuple[Kind, tuple[str, ...]]] = {}
    for name, strategy in definition.subresources.items():
        # None means that the version has all sub-resources of the kind.
        if served.subresources is None or name in served.subresources:
            found[name] = (("", "", definition.kind), strategy.verbs)
    if definition.scalable or getattr(served.type, "scale", None) is not None:
        found["scale"] = (("autoscaling", "v1", "Scale"), ("get", "patch", "update"))
    for connected in definition.connected:
        found[connected.name] = ((connected.group, connected.version, connected.kind), connected.verbs)
    for name, (kind, verbs) in sorted(found.items()):
        yield route(name, kind, verbs)


def group_order(group: str) -> tuple[int, str]:
    """Return the sort key of a group: the order of a stock server, then the rest by name."""
    return _RANK.get(group, len(_GROUPS)), group


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version: stable before beta before alpha, newer first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return stage, -int(match[1]), -int(match[3] or 0), version
