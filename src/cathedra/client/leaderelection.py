"""Leader election among several processes by a Lease that has to be renewed.

A component that must not run twice (scheduler, controllers) runs inside `LeaderElector.run`. Rules and figures are
client-go's (docs/spec/apimachinery.md §18): a lease is valid from the moment its change was *observed* here, so clocks
of different machines need not agree.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

import msgspec

from cathedra.api.core.coordination_v1 import Lease, LeaseSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import MicroTime, replace
from cathedra.client.client import Client
from cathedra.client.resources import LEASES
from cathedra.clock import Clock

_LOG = logging.getLogger(__name__)

JITTER_FACTOR: Final = 1.2
"""Maximum number of retry periods between attempts, as in Kubernetes; a holder must have time for one before it gives
up.
"""

_RELEASES: Final = 3
"""Attempts to give a lease back. One renewal at most can come in between."""


class LostLeadership(Exception):
    """The lease could not be renewed in time: another process may lead now, so work had to stop."""


class LeaseTiming(msgspec.Struct, frozen=True):
    """Validity of a lease, time after which its holder gives up renewing, and interval of attempts. Seconds."""

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


class LeaderElector:
    """A candidate for one lease."""

    def __init__(
        self,
        client: Client,
        name: str,
        identity: str,
        *,
        clock: Clock,
        namespace: str = "kube-system",
        timing: LeaseTiming = LeaseTiming(),
    ) -> None:
        """``identity`` must differ between candidates; Kubernetes uses ``<host>_<uuid>``."""
        self.identity = identity
        self._name = name
        self._leases = client.resource(LEASES, namespace)
        self._namespace = namespace
        self._clock = clock
        self._timing = timing
        self._observed: LeaseSpec | None = None
        self._observed_at = 0.0
        self._leading = False

    @property
    def name(self) -> str:
        """Name of the lease."""
        return self._name

    @property
    def leader(self) -> str:
        """The current leader as observed here; "" if none is known."""
        return (self._observed.holder_identity or "") if self._observed else ""

    @property
    def leading(self) -> bool:
        """Return True if this candidate leads."""
        return self._leading

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until this candidate leads, then run ``lead`` until it ends; the lease is given back afterwards.

        Raises:
            LostLeadership: the lease was lost; ``lead`` has been cancelled and has ended.
        """
        # The first attempt observes the lease, so a foreign one is taken at the earliest when its duration has passed
        # here.
        while not await self._try():
            await self._clock.sleep(self._timing.retry)
        self._leading = True
        _LOG.info("%s leads %s", self.identity, self._name)
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leading = False
            # If the renewal failed, another candidate may lead: then the lease is not ours to release.
            kept = not renewal.done()
            for task in (work, renewal):
                task.cancel()
            # Waits for the end of the work before the release: the next leader starts at once.
            outcome = await asyncio.gather(work, renewal, return_exceptions=True)
            if kept:
                await self._release()
        for result in outcome:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    async def _renew(self) -> None:
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._timing.retry)
            try:
                # A hanging request must not outlive the lease: without the limit this process would still lead while
                # another one takes over.
                async with asyncio.timeout(self._timing.renew_deadline):
                    held = await self._try()
            except TimeoutError:
                held = False
            if held:
                renewed = self._clock.monotonic()
            elif self._clock.monotonic() - renewed >= self._timing.renew_deadline or self._taken():
                # Raised before the lease ends for others (10 s against 15 s), so that this process stops before the
                # next one starts.
                raise LostLeadership(f"{self.identity} could not renew lease {self._namespace}/{self._name}")

    def _taken(self) -> bool:
        return self._observed is not None and self._observed.holder_identity not in (self.identity, "", None)

    async def _try(self) -> bool:
        """Take or renew the lease; whether it is held now."""
        try:
            return await self._acquire()
        except (StatusError, ConnectionError) as error:
            _LOG.debug("%s: lease %s: %s", self.identity, self._name, error)
            return False

    async def _acquire(self) -> bool:
        now = MicroTime(self._clock.now())
        wanted = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=int(self._timing.lease),
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )
        try:
            lease = await self._leases.get(self._name)
        except StatusError as error:
            if not error.is_not_found:
                raise
            created = await self._leases.create(
                Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=wanted)
            )
            self._observe(created.spec)
            return True
        self._observe(lease.spec)
        if lease.spec.holder_identity == self.identity:
            wanted = replace(
                wanted, acquire_time=lease.spec.acquire_time, lease_transitions=lease.spec.lease_transitions
            )
        # Compared with the time of observation, not with renewTime, which was written by another machine's clock.
        elif lease.spec.holder_identity and not self._expired(lease.spec):
            return False
        else:
            wanted = replace(wanted, lease_transitions=(lease.spec.lease_transitions or 0) + 1)
        # With the resource version that was read. Of two candidates one gets a conflict, and only the other leads.
        updated = await self._leases.update(replace(lease, spec=wanted))
        self._observe(updated.spec)
        return True

    def _observe(self, spec: LeaseSpec) -> None:
        if spec != self._observed:
            # The time counts from the change as seen here, so the clocks of two machines need not agree.
            self._observed = spec
            self._observed_at = self._clock.monotonic()

    def _expired(self, spec: LeaseSpec) -> bool:
        duration = spec.lease_duration_seconds or self._timing.lease
        return self._clock.monotonic() - self._observed_at >= duration

    async def _release(self) -> None:
        """Let others take over at once instead of waiting for the lease to run out."""
        try:
            for _ in range(_RELEASES):
                if await self._given_back():
                    return
            _LOG.debug("%s: lease %s was written again and again, and not given back", self.identity, self._name)
        except (StatusError, ConnectionError) as error:
            _LOG.debug("%s: lease %s was not given back: %s", self.identity, self._name, error)

    async def _given_back(self) -> bool:
        """Give the lease back, if it is held; False if a write came in between, as a renewal of our own that was under
        way when it was cancelled."""
        lease = await self._leases.get(self._name)
        if lease.spec.holder_identity != self.identity:
            return True
        now = MicroTime(self._clock.now())
        # A duration of one second as in client-go: candidates that look only at times take over at once, too.
        spec = replace(lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=now, acquire_time=now)
        try:
            await self._leases.update(replace(lease, spec=spec))
        except StatusError as error:
            if not error.is_conflict:
                raise
            return False
        return True


def make_elector(
    client: Client,
    lease: str,
    *,
    clock: Clock,
    random: Random,
    namespace: str = "kube-system",
    timing: LeaseTiming = LeaseTiming(),
) -> LeaderElector:
    """Return a candidate for ``lease``, under a name like those of Kubernetes' own: ``<host>_<uuid>``."""
    identity = f"{socket.gethostname()}_{uuid.UUID(int=random.getrandbits(128), version=4)}"
    return LeaderElector(client, lease, identity, clock=clock, namespace=namespace, timing=timing)
