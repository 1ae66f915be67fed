"""API servers of one store: each has a lease, and the addresses of all are those of the Service ``kubernetes``.

As in Kubernetes, the lease of a server is in ``kube-system``, has the label ``apiserver.kubernetes.io/identity``, is
renewed every ten seconds and is removed when it has not been renewed for an hour. Here each lease has the address of
its server in an annotation. Kubernetes keeps the addresses in the store beside the objects; on etcd servers of Cathedra
do that as well, so that kube-apiservers find them (`MasterLease`).

The annotation also distinguishes the servers of Cathedra from kube-apiservers. Beside one of those, no two writes of a
resource may share a revision (`Table.resume`).
"""

from __future__ import annotations

import base64
import hashlib
import logging
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.coordination_v1 import Lease, LeaseSpec
from cathedra.api.core.core_v1 import EndpointAddress, Endpoints, EndpointSubset
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.protobuf import MAGIC, ProtobufError, decode_message, encode_message, unwrap, wrap
from cathedra.api.scheme import GroupResource, kind_of
from cathedra.api.status import StatusError
from cathedra.api.struct import MicroTime, decode, replace
from cathedra.api.undecodable import FAULTS
from cathedra.apiserver.bootstrap.clusterobjects import Address, kubernetes_endpoints
from cathedra.apiserver.bootstrap.keeping import INTERVAL, KeptObject, ObjectKeeper
from cathedra.apiserver.registry.registry import Registry, WriteConflict
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import ExpiringStorage, StorageError, Superseded
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.clock import Clock

_LOG = logging.getLogger(__name__)

LEASES: Final = GroupResource("coordination.k8s.io", "leases")
IDENTITY: Final = "apiserver.kubernetes.io/identity"
"""The label of the leases of API servers."""
ADDRESS: Final = "cathedra.dev/api-server"
"""The annotation with host and port of a server of Cathedra."""
LEASE_SECONDS: Final = 3600
SILENT_SECONDS: Final = 3 * INTERVAL
"""Time after the last renewal in which a server counts as running."""
_NAMESPACE: Final = "kube-system"
_PREFIX: Final = f"{_NAMESPACE}/apiserver-"


class _Renewal(msgspec.Struct, frozen=True):
    renewed: Any
    seen: float


class ServerLeases:
    """Keeps the lease of this server, and the addresses of all; `run` until cancelled."""

    def __init__(self, server: ServerContext, address: Address) -> None:
        self._server = server
        self._address = address
        host = platform.node()
        digest = hashlib.sha256(f"{host}/{address.host}:{address.port}".encode()).digest()[:16]
        self.name = f"apiserver-{base64.b32encode(digest).decode().rstrip('=').lower()}"
        """Other than in Kubernetes the address is part of the name: several servers may run on one host."""
        identity = server.random.getrandbits(128)
        self._holder = f"{self.name}_{identity:032x}"
        self._labels = {IDENTITY: "kube-apiserver", "kubernetes.io/hostname": host}
        storage = server.registry.expiring
        self._masters = MasterLeases(storage, address.host) if storage is not None else None
        self._renewals: dict[str, _Renewal] = {}
        """By the key of a lease: its last renewal, and when that arrived here. The clocks of servers may differ."""

    async def run(self) -> None:
        """Renew the lease and correct the addresses at each interval, until cancelled."""
        while True:
            await self._server.clock.sleep(INTERVAL)
            await self.reconcile()

    async def reconcile(self) -> None:
        """Renew the lease, remove those of servers that are gone, and correct the addresses."""
        if self._masters is not None:
            await self._masters.renew()
        wanted = KeptObject(LEASES, self._lease(), (), self._renewed)
        await ObjectKeeper(self._server, (wanted,)).reconcile()
        await self._remove_expired()
        addresses = self.addresses()
        await ObjectKeeper(self._server, tuple(kubernetes_endpoints(addresses))).reconcile()

    def addresses(self) -> Sequence[Address]:
        """Return the addresses of the servers that run, in one order on all servers."""
        now, running = self._server.clock.monotonic(), {self._address}
        for entry in _identities(self._server.registry):
            text = entry.object.metadata.annotations.get(ADDRESS)
            if text is None:
                continue
            last = self._renewals.get(entry.key)
            if last is None or last.renewed != entry.object.spec.renew_time:
                last = self._renewals[entry.key] = _Renewal(entry.object.spec.renew_time, now)
            if now - last.seen < SILENT_SECONDS and (found := Address.parse(text)) is not None:
                running.add(found)
        if self._masters is not None:
            # kube-apiservers on the same etcd. Their ports are not recorded; Kubernetes assumes its own, too.
            hosts = {address.host for address in running}
            running.update(Address(host, self._address.port) for host in self._masters.hosts - hosts)
        return sorted(running)

    def urls(self) -> Sequence[str]:
        """Return the URLs of the servers that run."""
        return [f"https://{address}" for address in self.addresses()]

    async def end(self) -> None:
        """Remove the lease: this server stops."""
        if self._masters is not None:
            await self._masters.end()
        await self._remove(f"{_NAMESPACE}/{self.name}")

    def _lease(self) -> Lease:
        now = MicroTime(self._server.clock.now())
        return Lease(
            metadata=ObjectMeta(
                name=self.name,
                namespace=_NAMESPACE,
                labels=self._labels,
                annotations={ADDRESS: str(self._address)},
            ),
            spec=LeaseSpec(
                holder_identity=self._holder, lease_duration_seconds=LEASE_SECONDS, acquire_time=now, renew_time=now
            ),
        )

    def _renewed(self, found: Lease, wanted: Lease) -> Lease:
        metadata = replace(
            found.metadata,
            labels={**found.metadata.labels, **wanted.metadata.labels},
            annotations={**found.metadata.annotations, **wanted.metadata.annotations},
        )
        # A start takes over the lease of the process before it.
        took_over = found.spec.holder_identity != wanted.spec.holder_identity
        acquired = wanted.spec.acquire_time if took_over else found.spec.acquire_time
        return replace(found, metadata=metadata, spec=replace(wanted.spec, acquire_time=acquired))

    async def _remove_expired(self) -> None:
        now = self._server.clock.now()
        for entry in tuple(_identities(self._server.registry)):
            if _is_expired(entry.object, now):
                self._renewals.pop(entry.key, None)
                await self._remove(entry.key)

    async def _remove(self, key: str) -> None:
        table = self._server.registry.table(LEASES)
        entry = table.get(key)
        if entry is None:
            return
        try:
            await self._server.registry.remove(table, entry, entry.object)
        except WriteConflict:
            return  # it is renewed at this moment, or another server was faster
        except StatusError as error:
            _LOG.warning("the lease %s stays: %s", key, error)


class RevisionSharing:
    """Lets writes of a resource share revisions while no kube-apiserver has a lease."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def start(self) -> None:
        """Decide by the present leases, and again when one changes."""
        self._decide()
        self._registry.observe(LEASES, self._changed)

    def _changed(self, change: StoredChange) -> None:
        # Leases of nodes are renewed all the time.
        if change.entry.key.startswith(_PREFIX):
            self._decide()

    def _decide(self) -> None:
        now = self._clock.now()
        foreign = any(
            ADDRESS not in entry.object.metadata.annotations and not _is_expired(entry.object, now)
            for entry in _identities(self._registry)
        )
        self._registry.share_revisions(not foreign)


def _identities(registry: Registry) -> Iterator[StoredObject]:
    """Return the leases of API servers."""
    table = registry.by_resource.get(LEASES)
    entries: Iterable[StoredObject] = () if table is None else table.entries()
    for entry in entries:
        if entry.key.startswith(_PREFIX) and IDENTITY in entry.object.metadata.labels:
            yield entry


def _is_expired(lease: Lease, now: float) -> bool:
    renewed, seconds = lease.spec.renew_time, lease.spec.lease_duration_seconds
    return renewed is None or seconds is None or renewed.timestamp + seconds < now


# Addresses of the API servers on one etcd, in the form in which kube-apiserver shares them.
#
# Each server keeps the key ``masterleases/IP`` with a time to live of fifteen seconds, and renews it every ten. Its
# value is an Endpoints object with the address, in protobuf. Every server reads all of these keys and writes the
# addresses into the Endpoints ``kubernetes``. Without them a kube-apiserver and a server of Cathedra on one etcd would
# replace each other's address there for ever.
#
# Source: ``pkg/controlplane/reconcilers/lease.go``.

LOG: Final = logging.getLogger(__name__)
PREFIX: Final = "masterleases/"
SECONDS: Final = 15
"""Time to live of a key, as in Kubernetes."""


class MasterLeases:
    """The key of this server, and those of all."""

    def __init__(self, storage: ExpiringStorage, host: str) -> None:
        self._storage = storage
        self._host = host
        self._revision = 0
        """That of this server's key, once it is kept."""
        self.hosts: frozenset[str] = frozenset()
        """The addresses of all servers, as they were read last."""

    async def renew(self) -> None:
        """Keep the key of this server, and read the others. If the store does not answer, the last state counts."""
        key = PREFIX + self._host
        try:
            found = await self._storage.values(PREFIX)
            generation = _lease_of(found[key]).metadata.generation if key in found else 0
            self._revision = await self._storage.keep(key, lease_value(self._host, generation + 1), SECONDS)
        except StorageError as error:
            # The server's address is in its Lease as well, and stores that speak etcd's protocol may have no leases.
            LOG.debug("the address of this server is not renewed in the store: %s", error)
            return
        self.hosts = frozenset((self._host, *_hosts(found)))

    async def end(self) -> None:
        """Remove the key: this server stops. It would expire by itself."""
        if not self._revision:
            return
        try:
            await self._storage.write(PREFIX + self._host, None, expected=self._revision)
        except (StorageError, Superseded) as error:
            LOG.debug("the address of this server stays in the store until it expires: %s", error)


def lease_value(host: str, generation: int) -> bytes:
    """Return the value of a server's key. The generation distinguishes it from the one before, as in Kubernetes."""
    subset = EndpointSubset(addresses=(EndpointAddress(ip=host),))
    lease = Endpoints(metadata=ObjectMeta(generation=generation), subsets=(subset,))
    return wrap(kind_of(Endpoints), encode_message(lease))


def _hosts(values: Mapping[str, bytes]) -> Iterator[str]:
    for value in values.values():
        for subset in _lease_of(value).subsets[:1]:
            # Kubernetes reads the first address alone, too.
            yield from (address.ip for address in subset.addresses[:1] if address.ip)


def _lease_of(value: bytes) -> Endpoints:
    """Return the object of a key in protobuf or JSON; an empty one if it is neither."""
    try:
        return decode_message(Endpoints, unwrap(value).message) if value.startswith(MAGIC) else decode(Endpoints, value)
    except (ProtobufError, *FAULTS) as error:
        LOG.warning("the address of another server cannot be read from the store: %s", error)
        return Endpoints()
