"""Authorization of requests to the node's server, by SubjectAccessReviews.

As a kubelet with webhook authorization: a request needs a verb on a sub-resource of the node, ``nodes/proxy`` or a
narrower one (KEP-2862). Positive results are cached for five minutes, negative ones for 30 seconds.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from cathedra.api.status import StatusError, failure
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock
from cathedra.node.server.authentication import ExpiringCache

ALLOWED_SECONDS: Final = 300.0
REFUSED_SECONDS: Final = 30.0

_REVIEWS: Final = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)
_VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PROXY: Final = "proxy"
_SUBRESOURCES: Final = {
    "stats": ("stats",),
    "metrics": ("metrics",),
    "logs": ("log",),
    "pods": ("pods", _PROXY),
    "runningPods": ("pods", _PROXY),
    "healthz": ("healthz", _PROXY),
    "configz": ("configz", _PROXY),
}
"""By the first part of the path. Each of the sub-resources alone suffices."""

_Question = tuple[str, tuple[str, ...], str, str]


def subresources_of(path: str) -> tuple[str, ...]:
    """Return the sub-resources of the node of which one must be allowed for ``path``, in the order of the reviews.

    Only a path that begins with exactly such a name gets its sub-resource: others need ``proxy``.
    """
    first = path.removeprefix("/").partition("/")[0] if path.startswith("/") else ""
    return _SUBRESOURCES.get(first, (_PROXY,))


class RequestAuthorizer:
    """Checks with the API server that users may use this node's server."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._reviews = client.resource(_REVIEWS)
        self._node = node
        self._known: ExpiringCache[_Question, bool] = ExpiringCache(clock, 8192)

    async def authorize(self, user: UserInfo, method: str, path: str) -> None:
        """Check that ``user`` may make the request.

        Raises:
            StatusError: 403, the user may not; 500, the API server does not answer.
        """
        verb, subresources = _VERBS.get(method, ""), subresources_of(path)
        what = f"user={user.username}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(subresources)}]"
        for subresource in subresources:
            try:
                allowed = await self._allowed(user, verb, subresource)
            except (StatusError, ConnectionError) as error:
                raise failure(500, "InternalError", f"Authorization error ({what})") from error
            if allowed:
                return
        raise failure(403, "Forbidden", f"Forbidden ({what})")

    async def _allowed(self, user: UserInfo, verb: str, subresource: str) -> bool:
        question = (user.username, user.groups, verb, subresource)
        known = self._known.get(question)
        if known is not None:
            return known
        review = await self._reviews.create(
            SubjectAccessReview(
                spec=SubjectAccessReviewSpec(
                    user=user.username,
                    uid=user.uid,
                    groups=user.groups,
                    extra=user.extra,
                    resource_attributes=ResourceAttributes(
                        verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node
                    ),
                )
            )
        )
        allowed = review.status.allowed and not review.status.denied
        self._known.put(question, allowed, ALLOWED_SECONDS if allowed else REFUSED_SECONDS)
        return allowed
