"""Tokens of service accounts, requested from the API server (TokenRequest) and renewed before they expire.

With them a controller manager gives each controller its own account, as Kubernetes does with
``--use-service-account-credentials``: a missing account is created, a token is valid for an hour, and the next one is
requested after nine tenths of that.
"""

from __future__ import annotations

import asyncio
from typing import Final

from cathedra.api.core.authentication_v1 import TokenRequest, TokenRequestSpec
from cathedra.api.core.core_v1 import ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import SERVICEACCOUNTS
from cathedra.clock import Clock

LIFE: Final = 3600
"""Validity of a token, in seconds."""
USED: Final = 0.9
"""Fraction of its validity for which a token is used."""


class AccountTokens:
    """Source of tokens for one account, renewed as needed."""

    def __init__(self, client: Client, namespace: str, name: str, clock: Clock) -> None:
        """``client`` may create accounts and tokens."""
        self._accounts = client.resource(SERVICEACCOUNTS, namespace)
        self._name = name
        self._clock = clock
        self._token = ""
        self._good_until = 0.0
        self._asking = asyncio.Lock()

    async def current(self) -> str:
        """Return a valid token.

        Raises:
            StatusError: the API server refuses the account or the token.
            ConnectionError: it cannot be reached.
        """
        async with self._asking:
            if self._clock.monotonic() >= self._good_until:
                await self._renew()
            return self._token

    async def replaced(self, refused: str) -> bool:
        """Request another token, unless one was requested since ``refused`` was used."""
        async with self._asking:
            if self._token == refused:
                await self._renew()
            return self._token != refused

    async def _renew(self) -> None:
        request = TokenRequest(spec=TokenRequestSpec(expiration_seconds=LIFE))
        try:
            answer: TokenRequest = await self._accounts.create_subresource(self._name, "token", request)
        except StatusError as error:
            if not error.is_not_found:
                raise
            await self._create_account()
            answer = await self._accounts.create_subresource(self._name, "token", request)
        self._token = answer.status.token
        until = answer.status.expiration_timestamp
        life = LIFE if until is None else until.timestamp - self._clock.now()
        self._good_until = self._clock.monotonic() + life * USED

    async def _create_account(self) -> None:
        try:
            await self._accounts.create(ServiceAccount(metadata=ObjectMeta(name=self._name)))
        except StatusError as error:
            if not error.is_already_exists:
                raise
