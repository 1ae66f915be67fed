"""What the API server's user at nodes may do there, and that it may do nothing else."""

from __future__ import annotations

from cathedra.api.core.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from cathedra.apiserver.authentication.pki import KUBELET_CLIENT
from cathedra.client.resources import PODS
from cathedra.client.transport import ResourceRef
from cathedra.cluster.identity.permissions import install_kubelet_permissions
from tests.unit.apiserver.guarded import Guarded, guarded, refused

REVIEWS = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)


async def may(api: Guarded, verb: str, resource: str, subresource: str = "", node: str = "n1") -> bool:
    """What a node is told of the API server's user."""
    attributes = ResourceAttributes(verb=verb, version="v1", resource=resource, subresource=subresource, name=node)
    spec = SubjectAccessReviewSpec(user=KUBELET_CLIENT, resource_attributes=attributes)
    return (await api.node("n1").resource(REVIEWS).create(SubjectAccessReview(spec=spec))).status.allowed


def test_a_node_is_told_that_the_api_server_may_do_everything_at_nodes() -> None:
    async def body(api: Guarded) -> None:
        assert not await may(api, "get", "nodes", "proxy")
        for _ in range(2):  # the second start finds it there
            await install_kubelet_permissions(api.admin)
        for subresource in ("proxy", "log", "metrics", "stats", "pods", "healthz", "configz"):
            for verb in ("get", "create"):
                assert await may(api, verb, "nodes", subresource), (verb, subresource)

    guarded(body)


def test_beyond_nodes_it_may_nothing() -> None:
    async def body(api: Guarded) -> None:
        await install_kubelet_permissions(api.admin)
        for verb, resource, subresource in (
            ("list", "pods", ""),
            ("create", "pods", "exec"),
            ("get", "secrets", ""),
            ("update", "nodes", "status"),
            ("delete", "nodes", ""),
            ("impersonate", "users", ""),
        ):
            assert not await may(api, verb, resource, subresource), (verb, resource)
        await refused(api.of(KUBELET_CLIENT).resource(PODS, "default").list())

    guarded(body)
