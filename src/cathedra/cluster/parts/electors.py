"""Candidates for the lease that says which process schedules, and which one runs the controllers."""

from __future__ import annotations

import socket
import uuid
from random import Random
from typing import Final

from cathedra.client.client import Client
from cathedra.client.leaderelection import LeaderElector, LeaseTiming
from cathedra.clock import Clock

__all__ = ["make_elector"]

_TIMING: Final = LeaseTiming()


def make_elector(
    client: Client,
    lease: str,
    *,
    clock: Clock,
    random: Random,
    namespace: str = "kube-system",
    timing: LeaseTiming = _TIMING,
) -> LeaderElector:
    """A candidate for ``lease``, under a name like those of Kubernetes' own: ``<host>_<uuid>``."""
    identity = f"{socket.gethostname()}_{uuid.UUID(int=random.getrandbits(128), version=4)}"
    return LeaderElector(client, lease, identity, clock=clock, namespace=namespace, timing=timing)
