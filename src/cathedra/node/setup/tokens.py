"""Tokens with which a pod's containers show the API server who they are, renewed before they expire."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from cathedra.api.core.core_v1 import Pod, ServiceAccountTokenProjection
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import SERVICEACCOUNTS

__all__ = ["PodTokens"]

_DEFAULT_SECONDS: Final = 3600
_RENEW_AFTER: Final = 0.8
_LONGEST_USE: Final = 24 * 3600.0
"""A token is renewed after four fifths of its life, and after a day at the latest."""


class _Issued(msgspec.Struct, frozen=True):
    token: str
    renew_at: float


class PodTokens:
    """The tokens of one pod."""

    def __init__(self, client: Client, pod: Pod) -> None:
        metadata = pod.metadata
        self._accounts = client.resource(SERVICEACCOUNTS, metadata.namespace)
        self._account = pod.spec.service_account_name or "default"
        self._bound = BoundObjectReference(kind="Pod", api_version="v1", name=metadata.name, uid=metadata.uid)
        self._issued: dict[tuple[str, int], _Issued] = {}

    async def get(self, wanted: ServiceAccountTokenProjection, now: float) -> str | None:
        """A token that is still good at ``now`` (monotonic seconds); None where the API server issues none.

        Raises:
            StatusError: the API server refuses.
            ConnectionError: it cannot be reached.
        """
        seconds = wanted.expiration_seconds or _DEFAULT_SECONDS
        key = (wanted.audience, seconds)
        known = self._issued.get(key)
        if known is not None and now < known.renew_at:
            return known.token
        request = TokenRequest(
            spec=TokenRequestSpec(
                audiences=(wanted.audience,) if wanted.audience else (),
                expiration_seconds=seconds,
                bound_object_ref=self._bound,
            )
        )
        try:
            issued: TokenRequest = await self._accounts.create_subresource(self._account, "token", request)
        except StatusError as error:
            if error.code in {404, 405}:
                return None
            raise
        granted = issued.spec.expiration_seconds or seconds
        self._issued[key] = _Issued(issued.status.token, now + min(granted * _RENEW_AFTER, _LONGEST_USE))
        return issued.status.token
