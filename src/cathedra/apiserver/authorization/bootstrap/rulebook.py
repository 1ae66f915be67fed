"""Notation of default roles: one line per rule, sorted as Kubernetes stores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.releases import Behaviour

RESOURCE: Final = "resource.k8s.io"
_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
}
"""Words for several verbs."""


class GatedRule(msgspec.Struct, frozen=True):
    """A rule, the feature gates that must all be open for it to be there, and the behaviour of its releases."""

    rule: PolicyRule
    gates: tuple[str, ...] = ()
    behaviour: Behaviour | None = None
    """Only releases with this behaviour have the rule; None: all releases."""


class DefaultRole(msgspec.Struct, frozen=True):
    """A cluster role that every cluster has."""

    name: str
    rules: tuple[GatedRule, ...] = ()
    labels: tuple[str, ...] = ()
    """Labels with the value "true"."""
    aggregates: str = ""
    """Label whose bearers' rules it gathers."""
    gates: tuple[str, ...] = ()
    """Feature gates without which there is no such role."""


def rule(verbs: str, groups: str, resources: str, names: str = "") -> GatedRule:
    """Return a rule from words: ``rule("read delete", "core apps", "pods replicasets")``; ``core`` is the group without
    a name."""
    spelled = [verb for word in verbs.split() for verb in _VERBS.get(word, (word,))]
    return GatedRule(
        PolicyRule(
            verbs=_sorted(spelled),
            api_groups=_sorted("" if group == "core" else group for group in groups.split()),
            resources=_sorted(resources.split()),
            resource_names=_sorted(names.split()),
        )
    )


def urls(paths: str, verbs: str = "get") -> GatedRule:
    """Return a rule about paths that are no resources."""
    return GatedRule(PolicyRule(verbs=_sorted(verbs.split()), non_resource_urls=_sorted(paths.split())))


def when(gates: str, gated: GatedRule, behaviour: Behaviour | None = None) -> GatedRule:
    """Return the rule for clusters in which all the gates are open, of releases with the behaviour."""
    return GatedRule(gated.rule, tuple(gates.split()), behaviour)


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(words))


EVENTS: Final = rule("create patch update", "core events.k8s.io", "events")
"""Writing events, as every part does."""
