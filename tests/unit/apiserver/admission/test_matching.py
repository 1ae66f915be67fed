"""Selection of requests by policies and webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import MatchResources
from cathedra.api.core.core_v1 import ConfigMap, Namespace
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.matching import Matcher, may_match
from tests.unit.apiserver.admission.writes import write
from tests.unit.kinds.objects import claim

RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


class Namespaces:
    """A registry that knows one namespace, «n», with a label."""

    def find(self, resource: object, key: str) -> Namespace | None:
        return from_dict(Namespace, {"metadata": {"name": "n", "labels": {"team": "a"}}}) if key == "n" else None


MATCHER = Matcher(Namespaces())  # type: ignore[arg-type]  # it only looks namespaces up


def found(request: AdmissionAttributes, **match: Any) -> str | None:
    rules = from_dict(MatchResources, match)
    version = MATCHER.resources(rules, request)
    assert version is None or may_match(rules, request.definition, request.subresource, request.operation)
    return version.name if version is not None else None


def one(**rule: Any) -> dict[str, Any]:
    return {"resourceRules": [{**RULE, **rule}]}


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({}, True),
        ({"operations": ["CREATE"]}, True),
        ({"operations": ["DELETE"]}, False),
        ({"apiGroups": [""]}, True),
        ({"apiGroups": ["apps"]}, False),
        ({"apiVersions": ["v1"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["pods", "configmaps"]}, True),
        ({"resources": ["pods"]}, False),
        ({"resources": ["configmaps/*"]}, True),
        ({"resources": ["configmaps/status"]}, False),
        ({"resources": ["*/*"]}, True),
        ({"resourceNames": ["a"]}, True),
        ({"resourceNames": ["b"]}, False),
        ({"scope": "*"}, True),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
    ],
)
def test_all_parts_of_a_rule_must_fit(rule: dict[str, Any], matches: bool) -> None:
    request = write("configmaps", new=ConfigMap(), namespace="n", name="a")
    assert found(request, **one(**rule)) == ("v1" if matches else None)


@pytest.mark.parametrize(
    ("resources", "matches"),
    [(["pods"], False), (["pods/status"], True), (["pods/*"], True), (["*/status"], True), (["*"], False)],
)
def test_a_sub_resource_is_named_or_meant_by_a_star(resources: list[str], matches: bool) -> None:
    request = write("pods", "UPDATE", namespace="n", name="a", subresource="status")
    assert (found(request, **one(resources=resources)) is not None) is matches


@pytest.mark.parametrize(
    ("match", "may"),
    [
        ({}, True),
        (one(), True),
        (one(apiVersions=["v2"], resourceNames=["b"]), True),
        (one(operations=["DELETE"]), False),
        (one(apiGroups=["apps"]), False),
        (one(resources=["pods"]), False),
        (one(resources=["configmaps/status"]), False),
        (one(scope="Cluster"), False),
        ({**one(resources=["pods"]), "namespaceSelector": {}}, False),
        ({**one(resources=["pods"]), "namespaceSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"excludeResourceRules": [RULE]}, True),
    ],
)
def test_what_no_rule_names_cannot_match_unless_looking_may_fail(match: dict[str, Any], may: bool) -> None:
    request = write("configmaps")
    assert may_match(from_dict(MatchResources, match), request.definition, "", "CREATE") is may


def test_without_rules_everything_matches() -> None:
    request = write("configmaps", new=ConfigMap(), namespace="n")
    version = MATCHER.resources(None, request)
    assert version is request.version
    assert found(request) == "v1"


def test_what_is_excluded_does_not_match() -> None:
    request = write("configmaps", new=ConfigMap(), namespace="n")
    assert found(request, **one(), excludeResourceRules=[{**RULE, "resources": ["configmaps"]}]) is None
    assert found(request, **one(), excludeResourceRules=[{**RULE, "resources": ["secrets"]}]) == "v1"


@pytest.mark.parametrize(
    ("policy", "versions", "seen"),
    [
        ("Equivalent", ["v1beta1"], "v1beta1"),
        ("Exact", ["v1beta1"], None),
        ("Exact", ["v1"], "v1"),
        ("Equivalent", ["v1beta1", "v1"], "v1"),
        ("Equivalent", ["v7"], None),
    ],
)
def test_another_version_of_the_resource_matches_unless_the_exact_one_is_meant(
    policy: str, versions: list[str], seen: str | None
) -> None:
    request = write("resourceclaims", new=claim(), namespace="n")
    assert found(request, **one(apiVersions=versions), matchPolicy=policy) == seen


def selected(request: AdmissionAttributes, namespace: Any = None, labels: Any = None) -> bool:
    made = [None if one is None else from_dict(LabelSelector, {"matchLabels": one}) for one in (namespace, labels)]
    return MATCHER.selectors(*made, request)


def labelled(**labels: str) -> ConfigMap:
    return from_dict(ConfigMap, {"metadata": {"labels": labels}})


def test_namespaces_are_selected_by_their_labels() -> None:
    request = write("configmaps", new=ConfigMap(), namespace="n")
    assert selected(request, {"team": "a"})
    assert selected(request, {})
    assert not selected(request, {"team": "b"})


def test_a_namespace_is_selected_by_the_labels_that_it_is_written_with() -> None:
    new = from_dict(Namespace, {"metadata": {"name": "n", "labels": {"team": "b"}}})
    request = write("namespaces", "UPDATE", new, new, namespace="n", name="n")
    assert selected(request, {"team": "b"})
    assert not selected(request, {"team": "a"})


def test_what_lives_in_no_namespace_is_not_left_out_by_a_selector_of_namespaces() -> None:
    assert selected(write("nodes"), {"team": "b"})


def test_an_object_is_selected_by_its_labels_before_or_after() -> None:
    assert selected(write("configmaps", new=labelled(a="b"), namespace="n"), labels={"a": "b"})
    assert not selected(write("configmaps", new=labelled(), namespace="n"), labels={"a": "b"})
    assert selected(write("configmaps", "UPDATE", labelled(), labelled(a="b"), namespace="n"), labels={"a": "b"})
    assert selected(write("configmaps", "DELETE", old=labelled(a="b"), namespace="n"), labels={"a": "b"})


def test_a_namespace_that_is_missing_is_an_error() -> None:
    with pytest.raises(StatusError, match='namespaces "gone" not found') as raised:
        selected(write("configmaps", new=ConfigMap(), namespace="gone"), {"team": "a"})
    assert raised.value.code == 500
    assert MATCHER.namespace(write("nodes")) is None
