"""The two controllers with the rights of their accounts."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator

from cathedra.client.client import Client
from cathedra.clock import Clock
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.releases import FeatureGates
from tests.running import beside
from tests.unit.apiserver.guarded import Guarded


@contextlib.asynccontextmanager
async def controllers(api: Guarded) -> AsyncIterator[None]:
    def client_of(account: str) -> Client:
        return api.of(f"system:serviceaccount:kube-system:{account}")

    clock: Clock = api.clock
    manager = ControllerManager(
        api.of("system:kube-controller-manager"),
        clock=clock,
        random=random.Random(1),
        gates=FeatureGates.for_release(),
        options=ControllerOptions(
            controllers=["bootstrap-signer-controller", "token-cleaner-controller"], client_of=client_of
        ),
    )
    async with beside(manager.run()):
        yield
