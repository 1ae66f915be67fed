"""Matching of requests with the rules of a policy, a binding or a webhook (docs/spec/apimachinery.md §16.6).

A rule that names another version of the same resource matches too, unless it insists (``Exact``); the object is then
shown in that version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cathedra.api.core.admissionregistration_v1 import MatchResources, NamedRuleWithOperations, RuleWithOperations
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.scheme import GroupResource
from cathedra.api.selectors import from_label_selector
from cathedra.api.status import internal_error
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.registry.registry import Registry
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

NAMESPACES: Final = GroupResource("", "namespaces")
EXACT: Final = "Exact"
ALL: Final = "*"

AnyRule = NamedRuleWithOperations | RuleWithOperations


def may_match(match: MatchResources | None, definition: AnyDefinition, subresource: str, operation: str) -> bool:
    """Return True if such a write may match, whatever its version, names and labels, or may fail to be evaluated."""
    if match is None or not match.resource_rules:
        return True
    if match.namespace_selector is not None and not _is_empty(match.namespace_selector):
        # The namespace is looked up before the rules are matched, and if it is missing the request is an error.
        return True
    return any(_is_about(rule, definition, subresource, operation) for rule in match.resource_rules)


class Matcher:
    """Matches requests, with the labels of their namespaces."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def resources(self, match: MatchResources | None, request: AdmissionAttributes) -> VersionDefinition | None:
        """Return the version in which the request matches, or None. Without rules everything matches."""
        if match is None:
            return request.version
        if not self.selectors(match.namespace_selector, match.object_selector, request):
            return None
        # Exclusion before inclusion, as in Kubernetes: a rule that includes everything can have exceptions.
        if self.rules(match.exclude_resource_rules, match.match_policy, request) is not None:
            return None
        if not match.resource_rules:
            return request.version
        return self.rules(match.resource_rules, match.match_policy, request)

    def rules(
        self, rules: Iterable[AnyRule], policy: str | None, request: AdmissionAttributes
    ) -> VersionDefinition | None:
        """Return the version in which one of the rules matches: the request's own, if a rule names it."""
        rules = tuple(rules)
        for rule in rules:
            if _matches(rule, request, request.version.name):
                return request.version
        if policy == EXACT:
            return None
        for rule in rules:
            # An old client can write the same object in another version; the rule must hold for it, too.
            for version in request.definition.equivalents or request.definition.versions:
                if version.name != request.version.name and _matches(rule, request, version.name):
                    return version
        return None

    def selectors(
        self, namespace: LabelSelector | None, labels: LabelSelector | None, request: AdmissionAttributes
    ) -> bool:
        """Return True if the request's namespace and its object, new or old, have the right labels.

        Raises:
            StatusError: 500, the namespace is not there.
        """
        if namespace is not None and not _is_empty(namespace):
            found = self._namespace_labels(request)
            if found is not None and not from_label_selector(namespace).matches(found):
                return False
        if labels is None or _is_empty(labels):
            return True
        selector = from_label_selector(labels)
        objects = (one for one in (request.object, request.old_object) if one is not None)
        return any(selector.matches(one.metadata.labels) for one in objects if hasattr(one, "metadata"))

    def namespace(self, request: AdmissionAttributes) -> Any | None:
        """Return the request's namespace object; None in cluster scope, and for requests for namespaces themselves.

        Raises:
            StatusError: 500, it is not there.
        """
        if not request.namespace or request.definition.group_resource == NAMESPACES:
            return None
        found = self._registry.find(NAMESPACES, request.namespace)
        if found is None:
            raise internal_error(f'namespaces "{request.namespace}" not found')
        return found

    def _namespace_labels(self, request: AdmissionAttributes) -> Mapping[str, str] | None:
        """Return the labels that a namespace selector is evaluated on; None if there is no namespace."""
        if request.definition.group_resource == NAMESPACES:
            shown = request.object if request.object is not None else request.old_object
            return shown.metadata.labels if hasattr(shown, "metadata") else None
        found = self.namespace(request)
        return found.metadata.labels if found is not None else None


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _matches(rule: AnyRule, request: AdmissionAttributes, version: str) -> bool:
    names = rule.resource_names if isinstance(rule, NamedRuleWithOperations) else ()
    return (
        _is_about(rule, request.definition, request.subresource, request.operation)
        and _has(rule.api_versions, version)
        and (not names or request.name in names)
    )


def _is_about(rule: AnyRule, definition: AnyDefinition, subresource: str, operation: str) -> bool:
    return (
        _has(rule.operations, operation)
        and _has(rule.api_groups, definition.group)
        and any(_resource_matches(one, definition.plural, subresource) for one in rule.resources)
        and _in_scope(rule.scope, definition)
    )


def _has(values: tuple[str, ...], wanted: str) -> bool:
    return ALL in values or wanted in values


def _resource_matches(named: str, plural: str, subresource: str) -> bool:
    resource, _, part = named.partition("/")
    return resource in {ALL, plural} and part in {ALL, subresource}


def _in_scope(scope: str | None, definition: AnyDefinition) -> bool:
    if scope is None or scope in {"", ALL}:
        return True
    return (scope == "Namespaced") == definition.namespaced
