"""Default roles: the rules of each cluster role, with default gates and with all gates on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.apiserver.authorization.bootstrap.defaults import cluster_roles
from cathedra.releases import FeatureGates
from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["differences"]

SUBJECT = "roles"
FOLDER = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
ALL = {"AllAlpha": True, "AllBeta": True}
FILES: Mapping[str, Mapping[str, bool]] = {
    f"{FOLDER}/cluster-roles.yaml": {},
    f"{FOLDER}/controller-roles.yaml": {},
    f"{FOLDER}/cluster-roles-featuregates.yaml": ALL,
    f"{FOLDER}/controller-roles-featuregates.yaml": ALL,
}

Grant = tuple[str, str, str, str]
"""Verb, group, resource and name; or verb and URL."""


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield rights that a role has on one side only, one line for each role and resource."""
    for file, overrides in FILES.items():
        text = source.read(file)
        if text is None:
            continue
        gates = FeatureGates.for_release(release, overrides)
        ours = {role.metadata.name: _grants(map(_plain, role.rules or ())) for role in cluster_roles(gates)}
        for role in yaml.safe_load(text)["items"]:
            name = role["metadata"]["name"]
            theirs = _grants(role.get("rules") or ())
            if name not in ours:
                yield Difference(SUBJECT, name, "has the role", "lacks it", file)
                continue
            for what, more in (("grants", theirs - ours[name]), ("does not grant", ours[name] - theirs)):
                for resource, verbs in _by_resource(more):
                    other = "does not" if what == "grants" else "does"
                    yield Difference(SUBJECT, f"{name} {resource}", f"{what} {' '.join(verbs)}", other, file)


def _plain(rule: PolicyRule) -> dict[str, Any]:
    return {
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
        "nonResourceURLs": rule.non_resource_urls,
    }


def _grants(rules: Iterable[Mapping[str, Any]]) -> set[Grant]:
    granted: set[Grant] = set()
    for rule in rules:
        for verb in rule["verbs"]:
            granted.update((verb, "", url, "") for url in rule.get("nonResourceURLs") or ())
            for group in rule.get("apiGroups") or ():
                for resource in rule.get("resources") or ():
                    names = rule.get("resourceNames") or ("",)
                    granted.update((verb, group, resource, name) for name in names)
    return granted


def _by_resource(granted: Iterable[Grant]) -> Iterator[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for verb, group, resource, name in sorted(granted):
        where = ".".join(filter(None, (resource, group))) + (f"/{name}" if name else "")
        found.setdefault(where, []).append(verb)
    yield from found.items()
