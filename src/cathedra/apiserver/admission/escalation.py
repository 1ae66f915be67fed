"""No user grants permissions that the user does not hold (docs/spec/apimachinery.md §15.2).

In Kubernetes the storage of roles and bindings checks this, not a plugin. The moment is the same: after every change
of the object, before its validation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from cathedra.api.core.rbac_v1 import PolicyRule, RoleRef
from cathedra.api.field import shortened_text
from cathedra.api.status import forbidden, not_found
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer
from cathedra.apiserver.authorization.policyrules import EVERYTHING, TooManyParts, compact, describe, uncovered
from cathedra.apiserver.authorization.rbac import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
)


class EscalationCheck(AdmissionPlugin):
    """Refuses roles and bindings that would grant more than their writer holds."""

    kinds = frozenset({ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})

    def __init__(self, rbac: RBAC, authorizer: Authorizer) -> None:
        self._rbac = rbac
        self._authorizer = authorizer

    def admit(self, request: AdmissionAttributes) -> Any:
        """Check that a role or binding grants no more than the writer holds.

        Raises:
            StatusError: 403, it grants more; 404, the role of a binding is missing.
        """
        resource = request.definition.group_resource
        if request.operation not in {"CREATE", "UPDATE"} or request.user.is_master:
            return request.object
        if resource in {ROLES, CLUSTER_ROLES}:
            self._check_role(request)
        elif resource in {ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS}:
            self._check_binding(request)
        return request.object

    def _check_role(self, request: AdmissionAttributes) -> None:
        new, old = request.object, request.old_object
        aggregates = getattr(new, "aggregation_rule", None)
        if self._may(request, "escalate", request.name, request.definition.plural):
            return
        # An aggregation rule collects the rules of any role with the labels, now and later.
        is_new = aggregates is not None and (old is None or old.aggregation_rule != aggregates)
        if is_new and self._lacks(request, EVERYTHING):
            why = "must have cluster-admin privileges to use an aggregationRule"
            raise forbidden(request.definition.group_resource, request.name, why)
        # Labels of a role may be changed by those who do not hold its rules.
        if old is not None and (new.rules or ()) == (old.rules or ()):
            return
        self._check_rules(request, new.rules or ())

    def _check_binding(self, request: AdmissionAttributes) -> None:
        new, old = request.object, request.old_object
        # An update without a change grants nothing, as one that removes a finalizer.
        if old is not None and (new.role_ref, new.subjects) == (old.role_ref, old.subjects):
            return
        role: RoleRef = new.role_ref
        plural = "clusterroles" if role.kind == "ClusterRole" else "roles"
        if self._may(request, "bind", role.name, plural):
            return
        rules = self._rbac.rules_of(role, request.namespace)
        if rules is None:
            raise not_found(CLUSTER_ROLES if role.kind == "ClusterRole" else ROLES, role.name)
        self._check_rules(request, rules)

    def _check_rules(self, request: AdmissionAttributes, rules: tuple[PolicyRule, ...]) -> None:
        missing = self._lacks(request, rules)
        if not missing:
            return
        user = request.user
        groups = " ".join(json.dumps(group) for group in user.groups)
        lines = "\n".join(sorted({describe(rule) for rule in compact(missing)}))
        raise forbidden(
            request.definition.group_resource,
            request.name,
            shortened_text(
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently '
                f"held:\n{lines}"
            ),
        )

    def _lacks(self, request: AdmissionAttributes, rules: Iterable[PolicyRule]) -> list[PolicyRule]:
        """Return the part of some rules that the user does not hold.

        Raises:
            StatusError: 403, there are too many to list.
        """
        held = [grant.rule for grant in self._rbac.grants(request.user, request.namespace)]
        try:
            return uncovered(held, rules)
        except TooManyParts:
            why = "the rules stand for too many single permissions to be compared with those that the user has"
            raise forbidden(request.definition.group_resource, request.name, why) from None

    def _may(self, request: AdmissionAttributes, verb: str, name: str, plural: str) -> bool:
        question = Attributes(
            request.user,
            verb,
            request.definition.group,
            request.version.name,
            plural,
            namespace=request.namespace,
            name=name,
        )
        return self._authorizer.authorize(question).allowed
