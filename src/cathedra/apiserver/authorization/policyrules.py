"""Semantics of a role's rules: the requests that one allows, and whether some rules cover others
(docs/spec/apimachinery.md §15.2).

The authorizer, the reviews and the escalation check all call these functions, so they cannot disagree about a rule.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.apiserver.authorization.authorizer import Attributes

ALL: Final = "*"

EVERYTHING: Final = (
    PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), non_resource_urls=("*",)),
)
"""The rules of an administrator: every verb on everything."""


def allows(rule: PolicyRule, attributes: Attributes) -> bool:
    """Return True if ``rule`` allows a request."""
    if not _has(rule.verbs, attributes.verb):
        return False
    if attributes.path:
        return any(_path_matches(url, attributes.path) for url in rule.non_resource_urls)
    return (
        _has(rule.api_groups, attributes.group)
        and _resource_matches(rule.resources, attributes.full_resource, attributes.subresource)
        and (not rule.resource_names or attributes.name in rule.resource_names)
    )


MOST_COMPARISONS: Final = 2_000_000
"""Comparisons of parts of rules with rules, which take about a second."""
MOST_PARTS: Final = 50_000
"""Parts into which rules are taken. Those of ``cluster-admin`` are two, those of ``admin`` some thousand."""


class TooManyParts(Exception):
    """Rules stand for more single permissions than can be compared with others."""


def uncovered(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the parts of ``wanted``, each of one verb on one resource or path, that ``held`` does not allow.

    A rule of a few kilobytes can stand for millions of parts: each of its verbs on each resource of each group, with
    each name. So a rule that one held rule covers as a whole is not taken apart.

    Raises:
        TooManyParts: too many would have to be compared.
    """
    held = list(dict.fromkeys(held))
    wanted = list(dict.fromkeys(wanted))
    texts = sum(sum(map(len, _lists(rule))) for rule in wanted)
    if texts * len(held) > MOST_COMPARISONS:
        raise TooManyParts
    # The bounds are checked before the work: rules of a request could otherwise stop the server for minutes.
    owners = [_Owned(rule) for rule in held]
    rules = [rule for rule in wanted if not any(owned.covers(rule) for owned in owners)]
    parts = sum(map(_count, rules))
    if parts > MOST_PARTS or parts * len(held) > MOST_COMPARISONS:
        raise TooManyParts
    return [part for rule in rules for part in _parts(rule) if not any(owned.covers(part) for owned in owners)]


def _lists(rule: PolicyRule) -> tuple[tuple[str, ...], ...]:
    return rule.verbs, rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls


def _count(rule: PolicyRule) -> int:
    """Return the number of parts of a rule."""
    things = len(rule.api_groups) * len(rule.resources) * max(len(rule.resource_names), 1)
    return len(rule.verbs) * (things + len(rule.non_resource_urls))


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge rules on the same single resource into one with all their verbs, as Kubernetes' refusals show them."""
    merged: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    others: list[PolicyRule] = []
    for rule in rules:
        if len(rule.api_groups) == 1 and len(rule.resources) == 1 and not rule.non_resource_urls:
            key = (rule.api_groups[0], rule.resources[0], rule.resource_names)
            merged.setdefault(key, []).extend(rule.verbs)
            continue
        others.append(rule)
    for (group, resource, names), verbs in merged.items():
        others.append(PolicyRule(verbs=tuple(verbs), api_groups=(group,), resources=(resource,), resource_names=names))
    return others


def describe(rule: PolicyRule) -> str:
    """``{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}``."""
    fields = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    shown = (f"{name}:[{' '.join(map(json.dumps, values))}]" for name, values in fields if values)
    return "{" + ", ".join(shown) + "}"


def _has(values: Sequence[str], wanted: str) -> bool:
    return ALL in values or wanted in values


def _resource_matches(resources: Container[str], full: str, subresource: str) -> bool:
    if ALL in resources or full in resources:
        return True
    return bool(subresource) and f"*/{subresource}" in resources


def _path_matches(url: str, path: str) -> bool:
    return url in {ALL, path} or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def _parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    names: tuple[tuple[str, ...], ...] = tuple((name,) for name in rule.resource_names) or ((),)
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in names:
                    yield PolicyRule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=name)
    for url in rule.non_resource_urls:
        for verb in rule.verbs:
            yield PolicyRule(verbs=(verb,), non_resource_urls=(url,))


class _Owned:
    """A held rule, with its lists as sets."""

    def __init__(self, rule: PolicyRule) -> None:
        self._verbs, self._groups = frozenset(rule.verbs), frozenset(rule.api_groups)
        self._resources, self._names = frozenset(rule.resources), frozenset(rule.resource_names)
        self._urls = frozenset(rule.non_resource_urls)
        self._beginnings = [url for url in rule.non_resource_urls if url.endswith(ALL)]

    def covers(self, rule: PolicyRule) -> bool:
        """Return True if this rule alone allows everything that another does."""
        if ALL not in self._verbs and not self._verbs.issuperset(rule.verbs):
            return False
        return self._covers_urls(rule) and self._covers_resources(rule)

    def _covers_urls(self, rule: PolicyRule) -> bool:
        return all(
            wanted in self._urls or any(_path_matches(url, wanted) for url in self._beginnings)
            for wanted in rule.non_resource_urls
        )

    def _covers_resources(self, rule: PolicyRule) -> bool:
        if not rule.api_groups or not rule.resources:
            return bool(rule.non_resource_urls)  # a rule without groups or resources has only paths
        if ALL not in self._groups and not self._groups.issuperset(rule.api_groups):
            return False
        if not all(map(self._has_resource, rule.resources)):
            return False
        return not self._names or (bool(rule.resource_names) and self._names.issuperset(rule.resource_names))

    def _has_resource(self, resource: str) -> bool:
        return _resource_matches(self._resources, resource, resource.partition("/")[2])
