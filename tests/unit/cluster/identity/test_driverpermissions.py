"""What a driver's account may do."""

from __future__ import annotations

from cathedra.api.core.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from cathedra.client.transport import ResourceRef
from cathedra.cluster.identity.driverpermissions import install_driver_permissions
from tests.unit.apiserver.guarded import Guarded, guarded

REVIEWS = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)


async def may(api: Guarded, verb: str, driver: str) -> bool:
    """Whether a driver may do that with all claims."""
    attributes = ResourceAttributes(verb=verb, group="resource.k8s.io", version="v1", resource="resourceclaims")
    user = f"system:serviceaccount:kube-system:{driver}"
    spec = SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
    return (await api.admin.resource(REVIEWS).create(SubjectAccessReview(spec=spec))).status.allowed


def test_only_a_driver_with_binding_conditions_watches_claims() -> None:
    async def body(api: Guarded) -> None:
        await install_driver_permissions(api.admin, "plain.example.com")
        await install_driver_permissions(api.admin, "binds.example.com", binds=True)
        for verb, plain in (("get", True), ("list", False), ("watch", False)):
            assert await may(api, verb, "plain.example.com") is plain, verb
            assert await may(api, verb, "binds.example.com"), verb

    guarded(body)
