"""Reviews: the rights of a user, reviewed instead of tried."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.authorization_v1 import (
    LocalSubjectAccessReview,
    NonResourceAttributes,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServerConfig
from cathedra.client.resources import resource_ref
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.apiserver.asgi import open_asgi
from tests.unit.apiserver.guarded import Guarded, guarded, refused, rule, user

SELF = resource_ref(SelfSubjectAccessReview, "selfsubjectaccessreviews", namespaced=False)
RULES = resource_ref(SelfSubjectRulesReview, "selfsubjectrulesreviews", namespaced=False)
ANYBODY = resource_ref(SubjectAccessReview, "subjectaccessreviews", namespaced=False)
LOCAL = resource_ref(LocalSubjectAccessReview, "localsubjectaccessreviews", namespaced=True)
LIST_PODS = ResourceAttributes(namespace="default", verb="list", resource="pods", version="v1")


@run_with(guarded)
async def test_everybody_may_ask_about_himself(api: Guarded) -> None:
    review = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resource_attributes=LIST_PODS))
    alice = api.of("alice").resource(SELF)
    assert not (await alice.create(review)).status.allowed
    await api.role("reader", rule("list", "pods"))
    await api.bind("reader", user("alice"), namespace="default")
    answer = (await alice.create(review)).status
    assert answer.allowed
    assert answer.reason.startswith('RBAC: allowed by RoleBinding "reader/default"')


@run_with(guarded)
async def test_asking_about_others_needs_a_permission(api: Guarded) -> None:
    spec = SubjectAccessReviewSpec(user="alice", resource_attributes=LIST_PODS)
    await refused(api.of("bob").resource(ANYBODY).create(SubjectAccessReview(spec=spec)))
    answer = await api.admin.resource(ANYBODY).create(SubjectAccessReview(spec=spec))
    assert not answer.status.allowed
    masters = SubjectAccessReviewSpec(groups=("system:masters",), resource_attributes=LIST_PODS)
    assert (await api.admin.resource(ANYBODY).create(SubjectAccessReview(spec=masters))).status.allowed


@run_with(guarded)
async def test_paths_can_be_asked_about(api: Guarded) -> None:
    for path, allowed in (("/api", True), ("/metrics", False)):
        asked = NonResourceAttributes(path=path, verb="get")
        spec = SelfSubjectAccessReviewSpec(non_resource_attributes=asked)
        answer = await api.of("alice").resource(SELF).create(SelfSubjectAccessReview(spec=spec))
        assert answer.status.allowed is allowed


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (SubjectAccessReviewSpec(user="a"), ["spec.resourceAttributes"]),
        (SubjectAccessReviewSpec(resource_attributes=LIST_PODS), ["spec.user"]),
        (
            SubjectAccessReviewSpec(
                user="a", resource_attributes=LIST_PODS, non_resource_attributes=NonResourceAttributes()
            ),
            ["spec.nonResourceAttributes"],
        ),
    ],
)
@run_with(guarded)
async def test_a_question_that_makes_no_sense_is_refused(api: Guarded, *, spec: Any, fields: list[str]) -> None:
    with pytest.raises(StatusError) as caught:
        await api.admin.resource(ANYBODY).create(SubjectAccessReview(spec=spec))
    assert caught.value.code == 422
    assert [cause.field for cause in caught.value.causes] == fields


@run_with(guarded)
async def test_a_local_question_is_about_its_own_namespace(api: Guarded) -> None:
    spec = SubjectAccessReviewSpec(user="alice", resource_attributes=LIST_PODS)
    local = LocalSubjectAccessReview(spec=spec)
    assert not (await api.admin.resource(LOCAL, "default").create(local)).status.allowed
    message = await refused(api.admin.resource(LOCAL, "kube-system").create(local), 422)
    assert "must match metadata.namespace" in message


@run_with(guarded)
async def test_all_rules_in_a_namespace_can_be_listed(api: Guarded) -> None:
    await api.role("reader", rule("list", "pods", names="a"))
    await api.bind("reader", user("alice"), namespace="default")
    review = SelfSubjectRulesReview(spec=SelfSubjectRulesReviewSpec(namespace="default"))
    status = (await api.of("alice").resource(RULES).create(review)).status
    assert not status.incomplete
    assert any(one.resources == ("pods",) and one.resource_names == ("a",) for one in status.resource_rules)
    assert any("/api/*" in one.non_resource_urls for one in status.non_resource_rules)
    elsewhere = SelfSubjectRulesReview(spec=SelfSubjectRulesReviewSpec(namespace="kube-system"))
    status = (await api.of("alice").resource(RULES).create(elsewhere)).status
    assert not any(one.resources == ("pods",) for one in status.resource_rules)
    assert (await api.node("n1").resource(RULES).create(review)).status.incomplete


@pytest.mark.parametrize(
    ("release", "serve", "statuses"),
    [
        ("1.37", "", {"v1": 201, "v1beta1": 404, "v1alpha1": 404}),
        ("1.37", "authentication.k8s.io/v1beta1", {"v1": 201, "v1beta1": 404, "v1alpha1": 404}),
        ("1.32", "authentication.k8s.io/v1beta1", {"v1": 201, "v1beta1": 201, "v1alpha1": 404}),
        ("1.27", "authentication.k8s.io/v1beta1", {"v1": 404, "v1beta1": 201, "v1alpha1": 404}),
        ("1.26", "api/all", {"v1": 404, "v1beta1": 404, "v1alpha1": 201}),
    ],
)
async def test_who_one_is_can_be_asked_in_the_versions_of_the_release(
    release: str, serve: str, statuses: dict[str, int]
) -> None:
    gates = FeatureGates.for_release(release)
    config = ServerConfig(release=release, gates=gates, runtime_config={serve: True} if serve else {})
    async with open_asgi(config) as asgi:
        for version, status in statuses.items():
            path = f"/apis/authentication.k8s.io/{version}"
            body = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "SelfSubjectReview"}
            answer = await asgi("POST", f"{path}/selfsubjectreviews", body)
            assert answer.status == status, (version, answer.body)
            if status == 201:
                assert answer.json["apiVersion"] == f"authentication.k8s.io/{version}"
                assert answer.json["status"]["userInfo"]["username"] == "admin"
                listed = (await asgi("GET", path)).json["resources"]
                assert "selfsubjectreviews" in [one["name"] for one in listed]
