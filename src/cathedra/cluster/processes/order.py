"""What a child process is told: which parts to run, for which cluster, and the tokens of the users that they are."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.identity.driverpermissions import NODE_NAME_EXTRA
from cathedra.cluster.identity.permissions import SCHEDULER, driver_user, node_user
from cathedra.cluster.parts.controlplane import SCHEDULING
from cathedra.cluster.parts.foundation import Served

__all__ = ["APISERVER", "LAYOUTS", "NODES", "Layout", "Order", "Passes", "has_replica", "identity_of"]

NODES: Final = "nodes"
APISERVER: Final = "apiserver"
"""Answers requests beside the first process, which alone listens."""
Layout = tuple[tuple[str, ...], ...]
"""The parts of each process beside the first."""
LAYOUTS: Final[Mapping[int, Layout]] = {
    1: (),
    2: ((SCHEDULING, NODES),),
    3: ((SCHEDULING,), (NODES,)),
}
"""How many processes → the parts of each beside the first, which has the API server and the controllers: what these
write and what clients do is about as much as what the scheduler does."""

Identity = tuple[str, tuple[str, ...]]


def identity_of(user: UserInfo) -> Identity:
    """What tells users of a cluster's parts apart: a driver is the same account on every node."""
    return user.name, tuple(user.extra.get(NODE_NAME_EXTRA, ()))


def has_replica(config: ClusterConfig, parts: Collection[str]) -> bool:
    """Whether a process has an API server of its own on the first one's store, which saves its parts the way there.

    Not with a store that others write too. The scheduler's has none where every request is to be audited: that is the
    work of who answers requests. Nor have nodes alone, which are many and each see what is theirs.
    """
    if config.shares_store:
        return False
    return APISERVER in parts or (SCHEDULING in parts and config.audit_log is None)


class Passes:
    """A random token for each user that a part of another process is, made at a start and never written down."""

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
    """None of parts whose process has an API server of its own."""
    asking = {part for parts in LAYOUTS[config.processes] if not has_replica(config, parts) for part in parts}
    users = {SCHEDULING: (SCHEDULER,), NODES: tuple(_node_users(config))}
    return {part: found if part in asking else () for part, found in users.items()}


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
