"""Candidates for the lease that says which process schedules, and which one runs the controllers."""

from __future__ import annotations

import socket
import uuid
from random import Random

from cathedra.client.client import Client
from cathedra.client.leaderelection import LeaderElector
from cathedra.clock import Clock

__all__ = ["make_elector"]


def make_elector(client: Client, lease: str, *, clock: Clock, random: Random) -> LeaderElector:
    """A candidate for ``lease`` in kube-system, under a name like those of Kubernetes' own: ``<host>_<uuid>``."""
    identity = f"{socket.gethostname()}_{uuid.UUID(int=random.getrandbits(128), version=4)}"
    return LeaderElector(client, lease, identity, clock=clock)
