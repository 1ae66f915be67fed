"""Role-based access control: bindings give subjects the rules of roles (docs/spec/apimachinery.md §15.2).

A request is decided by a few dictionary look-ups: the grants of a user are gathered once and kept until a role or
binding changes; those for a verb on a resource are kept beside them. Only names are compared per request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import BoundedCache
from cathedra.api.core.rbac_v1 import PolicyRule, RoleRef, Subject
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import NO_OPINION, Attributes, Decision, Verdict
from cathedra.apiserver.authorization.policyrules import allows
from cathedra.apiserver.registry.registry import Registry

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = GroupResource(RBAC_GROUP, "roles")
CLUSTER_ROLES: Final = GroupResource(RBAC_GROUP, "clusterroles")
ROLE_BINDINGS: Final = GroupResource(RBAC_GROUP, "rolebindings")
CLUSTER_ROLE_BINDINGS: Final = GroupResource(RBAC_GROUP, "clusterrolebindings")
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_USERS_KEPT: Final = 4096
"""Users whose rights are cached; beyond, all are gathered again (a node's driver is one user per node)."""
_USER_BYTES: Final = 4 * 1024 * 1024
"""Characters of their names and groups."""
_DECISIONS_KEPT: Final = 16 * 1024
"""Kinds of allowed requests that are kept, of all users."""


class Grant(msgspec.Struct, frozen=True):
    """One rule that a user holds, and the binding that grants it."""

    rule: PolicyRule
    reason: str
    """The reason of a decision that it allows."""


class _Holdings(msgspec.Struct, eq=False):
    """The grants of one user: in all namespaces, and in single ones."""

    everywhere: tuple[Grant, ...]
    within: dict[str, tuple[Grant, ...]] = msgspec.field(default_factory=dict)


_Asked = tuple["_Holdings", str, str, str, str, str]
"""A user's holdings, namespace, verb, group, resource and sub-resource."""
_Matching = tuple[tuple[tuple[str, ...], Decision], ...]
"""The names that each matching grant is for, none for all, and what it decides."""


class RBAC:
    """The authorizer of roles and bindings, and the source of the rules that a user holds."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._holdings: BoundedCache[tuple[str, tuple[str, ...]], _Holdings] = BoundedCache(
            _USERS_KEPT, most_bytes=_USER_BYTES
        )
        self._relevant: BoundedCache[_Asked, _Matching] = BoundedCache(_DECISIONS_KEPT)
        self._cluster: dict[tuple[str, str], list[Any]] | None = None
        self._local: dict[str, dict[tuple[str, str], list[Any]]] = {}
        for resource in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            registry.observe(resource, lambda _: self._forget())

    def authorize(self, attributes: Attributes) -> Decision:
        """Allow the request if a rule does; otherwise have no opinion."""
        held = self._holdings.get((attributes.user.name, attributes.user.groups)) or self._gather(attributes.user)
        if attributes.path:
            allowing = (grant for grant in held.everywhere if allows(grant.rule, attributes))
            return next((Decision(Verdict.ALLOW, grant.reason) for grant in allowing), NO_OPINION)
        key = (
            held,
            attributes.namespace,
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
        )
        found = self._relevant.get(key) or self._find_relevant(key, attributes)
        for names, decision in found:
            if not names or attributes.name in names:
                return decision
        return NO_OPINION

    def grants(self, user: UserInfo, namespace: str) -> Iterator[Grant]:
        """Yield the grants of a user in ``namespace``, those for all namespaces first."""
        held = self._holdings.get((user.name, user.groups)) or self._gather(user)
        yield from held.everywhere
        if namespace:
            bindings = self._bindings_of(namespace)
            # Only namespaces with bindings are kept: a client can name any number of others.
            if namespace not in held.within and bindings:
                held.within[namespace] = tuple(self._granted(user, bindings, namespace))
            yield from held.within.get(namespace, ())

    def rules_of(self, role: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        """Return the rules of a role that a binding in ``namespace`` refers to; None if the role is missing.

        ``namespace`` is empty for a ClusterRoleBinding.
        """
        if role.kind == "ClusterRole":
            found = self._registry.find(CLUSTER_ROLES, role.name)
        else:
            found = self._registry.find(ROLES, f"{namespace}/{role.name}")
        return None if found is None else tuple(found.rules or ())

    def _find_relevant(self, key: _Asked, attributes: Attributes) -> _Matching:
        """Return the grants that match a request but for its name. They are kept if there are any: a client may
        request any number of things that do not exist, and is refused each time."""
        _, namespace, verb, group, resource, subresource = key
        # Rules get what is in the key and nothing else. One that reads another field is then wrong for every request,
        # and not for those alone that are decided by the cache.
        user = UserInfo(attributes.user.name, attributes.user.groups)
        wanted = Attributes(user, verb, group, "", resource, subresource, namespace)
        found = tuple(
            (tuple(grant.rule.resource_names), Decision(Verdict.ALLOW, grant.reason))
            for grant in self.grants(user, namespace)
            if _concerns(grant.rule, wanted)
        )
        # If a role changed while the grants were collected, the holdings in the key are old ones, and would be kept
        # by it for ever.
        if found and self._holdings.get((user.name, user.groups)) is key[0]:
            self._relevant.keep(key, found, sum(map(len, key[1:])))
        return found

    def _gather(self, user: UserInfo) -> _Holdings:
        held = _Holdings(tuple(self._granted(user, self._cluster_bindings(), "")))
        return self._holdings.keep((user.name, user.groups), held, sum(map(len, (user.name, *user.groups))))

    def _granted(self, user: UserInfo, bindings: dict[tuple[str, str], list[Any]], namespace: str) -> Iterator[Grant]:
        for binding, subject in _bindings_for(user, bindings):
            for rule in self.rules_of(binding.role_ref, namespace) or ():
                yield Grant(rule, _reason(binding, subject, namespace))

    def _cluster_bindings(self) -> dict[tuple[str, str], list[Any]]:
        if self._cluster is None:
            self._cluster = _by_subject(self._objects(CLUSTER_ROLE_BINDINGS))
        return self._cluster

    def _bindings_of(self, namespace: str) -> dict[tuple[str, str], list[Any]]:
        if not self._local:
            # The empty name makes the table true, so that a cluster without role bindings is not read each time.
            grouped: dict[str, list[Any]] = {"": []}
            for binding in self._objects(ROLE_BINDINGS):
                grouped.setdefault(binding.metadata.namespace, []).append(binding)
            self._local = {name: _by_subject(bindings) for name, bindings in grouped.items()}
        return self._local.get(namespace, {})

    def _objects(self, resource: GroupResource) -> Iterable[Any]:
        return (entry.object for entry in self._registry.table(resource).entries())

    def _forget(self) -> None:
        # Any role or binding can change what any user holds. They change rarely, so everything is dropped.
        self._holdings.clear()
        self._relevant.clear()
        self._cluster = None
        self._local = {}


def _concerns(rule: PolicyRule, attributes: Attributes) -> bool:
    """Return True if the rule allows the request for some name."""
    named = rule.resource_names
    return allows(rule, msgspec.structs.replace(attributes, name=named[0]) if named else attributes)


def _by_subject(bindings: Iterable[Any]) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    # Sorted, so that the reason of a decision is always that of the same binding.
    for binding in sorted(bindings, key=lambda b: b.metadata.name):
        for subject in binding.subjects:
            found.setdefault(_subject_key(subject, binding.metadata.namespace), []).append((binding, subject))
    return found


def _subject_key(subject: Subject, namespace: str) -> tuple[str, str]:
    if subject.kind == "ServiceAccount":
        return "User", f"{_SERVICE_ACCOUNT}{subject.namespace or namespace}:{subject.name}"
    return subject.kind, subject.name


def _bindings_for(user: UserInfo, bindings: dict[tuple[str, str], list[Any]]) -> Iterator[tuple[Any, Subject]]:
    for key in (("User", user.name), *(("Group", group) for group in dict.fromkeys(user.groups))):
        yield from bindings.get(key, ())


def _reason(binding: Any, subject: Subject, namespace: str) -> str:
    kind, name = "ClusterRoleBinding", binding.metadata.name
    if namespace:
        kind, name = "RoleBinding", f"{name}/{namespace}"
    who = f'{subject.kind} "{subject.name}"'
    if subject.kind == "ServiceAccount":
        who = f'ServiceAccount "{subject.name}/{subject.namespace or namespace}"'
    return f'RBAC: allowed by {kind} "{name}" of {binding.role_ref.kind} "{binding.role_ref.name}" to {who}'
