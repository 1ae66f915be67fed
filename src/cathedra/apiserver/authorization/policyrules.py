"""What a rule of a role allows, and whether some rules cover others (docs/spec/apimachinery.md §15.2).

Everything here is pure: the authorizer, the reviews and the escalation check all ask these functions, so they cannot
disagree about what a rule means.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.apiserver.authorization.authorizer import Attributes

__all__ = ["EVERYTHING", "allows", "compact", "describe", "uncovered"]

ALL: Final = "*"

EVERYTHING: Final = (
    PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), non_resource_urls=("*",)),
)
"""What an administrator may do."""


def allows(rule: PolicyRule, attributes: Attributes) -> bool:
    """Whether ``rule`` allows a request."""
    if not _has(rule.verbs, attributes.verb):
        return False
    if attributes.path:
        return any(_path_matches(url, attributes.path) for url in rule.non_resource_urls)
    return (
        _has(rule.api_groups, attributes.group)
        and _resource_matches(rule.resources, attributes.full_resource, attributes.subresource)
        and (not rule.resource_names or attributes.name in rule.resource_names)
    )


def uncovered(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The parts of ``wanted``, each of one verb on one thing, that ``held`` does not allow."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(owned, part) for owned in held)]


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Rules on the same single resource as one rule with all their verbs; the others as they are."""
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


def _resource_matches(resources: Sequence[str], full: str, subresource: str) -> bool:
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


def _covers(owned: PolicyRule, part: PolicyRule) -> bool:
    if not _has(owned.verbs, part.verbs[0]):
        return False
    if part.non_resource_urls:
        wanted = part.non_resource_urls[0]
        return any(_path_matches(url, wanted) for url in owned.non_resource_urls)
    if not _has(owned.api_groups, part.api_groups[0]):
        return False
    resource = part.resources[0]
    _, slash, subresource = resource.partition("/")
    if not _resource_matches(owned.resources, resource, subresource if slash else ""):
        return False
    if not owned.resource_names:
        return True
    return bool(part.resource_names) and part.resource_names[0] in owned.resource_names
