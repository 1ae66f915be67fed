"""A sub-resource of a core resource is reached through core/v1 alone, whatever a user may do in other groups."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

EXTRA = "dra-developer"
STREAMS = ("log", "exec", "attach", "portforward")
POSTED = ("binding", "eviction")
RULES = [
    {"apiGroups": ["resource.k8s.io", "made.up"], "resources": ["*"], "verbs": ["*"]},
    {
        "apiGroups": [""],
        "resources": ["pods/made-up", *(f"gadgets/{name}" for name in STREAMS + POSTED)],
        "verbs": ["*"],
    },
]
RBAC = "rbac.authorization.k8s.io"
POD = {"metadata": {"name": "victim"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    """A server with RBAC, a pod in kube-system, and a user with every right on another group."""
    async with open_asgi(ServerConfig(authorization=True)) as opened:
        opened.server.context.static_tokens.add({EXTRA: UserInfo("eve")})
        await opened("POST", "/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": {"name": "default"}})
        made = await opened("POST", "/api/v1/namespaces/kube-system/pods", POD)
        assert made.status == 201, made.body
        role = {"metadata": {"name": "dra"}, "rules": RULES}
        await opened("POST", f"/apis/{RBAC}/v1/clusterroles", role)
        binding = {
            "metadata": {"name": "dra"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "dra"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "eve"}],
        }
        assert (await opened("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)).status == 201
        yield opened


def paths(subresource: str) -> list[str]:
    """The pod's sub-resource through wrong groups, versions, resources and names of sub-resources."""
    pod = f"namespaces/kube-system/pods/victim/{subresource}"
    return [
        f"/apis/resource.k8s.io/v1/{pod}",
        f"/apis/resource.k8s.io/v1beta1/{pod}",
        f"/apis/made.up/v1/{pod}",
        f"/apis/resource.k8s.io/v1/namespaces/kube-system/resourceclaims/victim/{subresource}",
        f"/apis/resource.k8s.io/v1/namespaces/kube-system/nodes/victim/{subresource}",
        f"/api/v1/namespaces/kube-system/gadgets/victim/{subresource}",
        "/api/v1/namespaces/kube-system/pods/victim/made-up",
    ]


@pytest.mark.parametrize("subresource", [*STREAMS, *POSTED])
async def test_another_group_version_or_resource_has_no_such_subresource(asgi: ASGIClient, subresource: str) -> None:
    for path in paths(subresource):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = await asgi(method, path, {"metadata": {"name": "victim"}}, user=EXTRA)
            assert answer.status == 404, f"{method} {path}: {answer.status} {answer.body!r}"


@pytest.mark.parametrize("subresource", STREAMS)
async def test_nor_does_an_upgrade_find_it(asgi: ASGIClient, subresource: str) -> None:
    for path in paths(subresource):
        assert (await asgi.upgrade(path, user=EXTRA)).status == 404, path


@pytest.mark.parametrize("subresource", STREAMS)
async def test_a_version_of_core_that_is_not_served_has_none_either(asgi: ASGIClient, subresource: str) -> None:
    path = f"/api/v2/namespaces/kube-system/pods/victim/{subresource}"
    assert (await asgi("GET", path)).status == 404
    assert (await asgi.upgrade(path)).status == 404


async def test_the_right_path_needs_the_right_on_pods(asgi: ASGIClient) -> None:
    path = "/api/v1/namespaces/kube-system/pods/victim"
    for subresource in STREAMS:
        assert (await asgi("GET", f"{path}/{subresource}", user=EXTRA)).status == 403
        assert (await asgi.upgrade(f"{path}/{subresource}", user=EXTRA)).status == 403
    assert (await asgi("GET", f"{path}/log")).status == 204
    assert (await asgi("POST", f"{path}/exec?command=id")).json["message"] == "pod victim does not have a host assigned"


async def test_what_follows_a_subresource_is_no_part_of_it(asgi: ASGIClient) -> None:
    assert (await asgi("GET", "/api/v1/namespaces/kube-system/pods/victim/log/more")).status == 404
    assert (await asgi("GET", "/api/v1/watch/namespaces/kube-system/pods/victim/log")).status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/mine/namespaces",
        "/api/v1/namespaces/mine/namespaces/kube-system",
        "/api/v1/namespaces/mine/nodes",
        "/apis/authorization.k8s.io/v1/namespaces/mine/subjectaccessreviews",
        "/apis/authentication.k8s.io/v1/namespaces/mine/tokenreviews",
    ],
)
async def test_a_right_in_a_namespace_opens_nothing_outside_of_it(asgi: ASGIClient, path: str) -> None:
    """Rights of a role in a namespace are evaluated there; the result must not concern the whole cluster."""
    await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
    everything = {"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    await asgi("POST", f"/apis/{RBAC}/v1/namespaces/mine/roles", everything)
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "all"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "eve"}],
    }
    assert (await asgi("POST", f"/apis/{RBAC}/v1/namespaces/mine/rolebindings", binding)).status == 201
    for method in ("GET", "POST", "DELETE"):
        assert (await asgi(method, path, {"spec": {"user": "x"}}, user=EXTRA)).status == 404, method
