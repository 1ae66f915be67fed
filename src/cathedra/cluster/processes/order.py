"""What a child process is told: which parts to run, for which cluster, and the tokens of the users that they are."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.identity.driverpermissions import NODE_NAME_EXTRA
from cathedra.cluster.identity.permissions import (
    CONTROLLER_MANAGER,
    SCHEDULER,
    controller_user,
    driver_user,
    node_user,
)
from cathedra.cluster.parts.foundation import Served
from cathedra.controllers.controller_manager import service_accounts

__all__ = ["CONTROL_PLANE", "LAYOUTS", "NODES", "Order", "Passes", "identity_of"]

CONTROL_PLANE: Final = "scheduler and controllers"
NODES: Final = "nodes"
LAYOUTS: Final[Mapping[int, tuple[tuple[str, ...], ...]]] = {
    1: (),
    2: ((CONTROL_PLANE, NODES),),
    3: ((CONTROL_PLANE,), (NODES,)),
}
"""How many processes → the parts of each beside the API server's."""

Identity = tuple[str, tuple[str, ...]]


def identity_of(user: UserInfo) -> Identity:
    """What tells users of a cluster's parts apart: a driver is the same account on every node."""
    return user.name, tuple(user.extra.get(NODE_NAME_EXTRA, ()))


class Passes:
    """A random token for each user that a part is, made at a start and never written down."""

    def __init__(self, config: ClusterConfig) -> None:
        self._users = {
            part: {secrets.token_urlsafe(32): user for user in users} for part, users in _users_of(config).items()
        }

    @property
    def users(self) -> Mapping[str, UserInfo]:
        """Whose token each is, for the API server."""
        return {token: user for users in self._users.values() for token, user in users.items()}

    def of(self, parts: Iterable[str]) -> Mapping[Identity, str]:
        """The tokens of those parts' users, for their process."""
        return {identity_of(user): token for part in parts for token, user in self._users[part].items()}


def _users_of(config: ClusterConfig) -> Mapping[str, tuple[UserInfo, ...]]:
    controllers = (controller_user(account) for account in sorted(service_accounts()))
    return {
        CONTROL_PLANE: (SCHEDULER, CONTROLLER_MANAGER, *controllers),
        NODES: tuple(_node_users(config)),
    }


def _node_users(config: ClusterConfig) -> Iterator[UserInfo]:
    for name in (*config.node_names, *config.leaving):
        yield node_user(name)
        for driver in config.drivers:
            yield driver_user(driver, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """All that a child is told. It goes over an inherited socket, so neither disk nor command line show tokens."""

    parts: tuple[str, ...]
    config: ClusterConfig
    nodes: tuple[str, ...]
    served: Served
    socket: Path
    tokens: Mapping[Identity, str]
    log_level: str
    log_format: str

    def written(self) -> bytes:
        """The order as bytes, for a child of the same program."""
        return pickle.dumps(self)

    @staticmethod
    def read(data: bytes) -> Order:
        """The order that the parent wrote: bytes of this user's own process, from a socket that was inherited."""
        order = pickle.loads(data)
        if not isinstance(order, Order):
            raise TypeError(f"no order: {order!r}")
        return order
