"""The caller of a request, as authentication found out (docs/spec/apimachinery.md §14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

AUTHENTICATED_GROUP: Final = "system:authenticated"
UNAUTHENTICATED_GROUP: Final = "system:unauthenticated"
MASTERS_GROUP: Final = "system:masters"


class UserInfo(msgspec.Struct, frozen=True):
    """Name, groups and extra facts of a caller."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        """True for members of ``system:masters``: they are authorized for every request."""
        return MASTERS_GROUP in self.groups


ANONYMOUS: Final = UserInfo("system:anonymous", (UNAUTHENTICATED_GROUP,))
LOOPBACK: Final = UserInfo("system:apiserver", (MASTERS_GROUP, AUTHENTICATED_GROUP))
"""The user of the server's own writes."""
