"""Bearer tokens that are kept in files, and replaced there while a process runs.

A kubelet renews the tokens of pods' service accounts when four fifths of their life are over. So a token is read again
after a minute, and at once when the API server refuses it, as client-go does.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final, Protocol

PERIOD: Final = 60.0
"""Seconds for which a token is used unread."""

_LOG = logging.getLogger(__name__)


class TokenSource(Protocol):
    """Source of the bearer token of requests."""

    async def current(self) -> str:
        """The token to show now."""
        ...

    async def replaced(self, refused: str) -> bool:
        """Return True if there is another token than the one that was just refused."""
        ...


class TokenFile:
    """The bearer token in ``path``; ``token`` is used until the file can be read.

    It reads the clock of the running event loop.
    """

    def __init__(self, path: Path, token: str = "") -> None:
        self._path = path
        self._token = token
        self._good_until = 0.0

    async def current(self) -> str:
        """The token, at most `PERIOD` old. If the file cannot be read now, the last one."""
        if asyncio.get_running_loop().time() >= self._good_until:
            self._read()
        return self._token

    async def replaced(self, refused: str) -> bool:
        """Read the file now: whether there is another token in it than the one that was just refused."""
        self._read()
        return self._token != refused

    def _read(self) -> None:
        self._good_until = asyncio.get_running_loop().time() + PERIOD
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            _LOG.warning("unable to read token file %s, the last token is used: %s", self._path, error)
            return
        if token:
            self._token = token
