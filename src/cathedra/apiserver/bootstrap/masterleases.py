"""Addresses of the API servers on one etcd, in the form in which kube-apiserver shares them.

Each server keeps the key ``masterleases/IP`` with a time to live of fifteen seconds, and renews it every ten. Its value
is an Endpoints object with the address, in protobuf. Every server reads all of these keys and writes the addresses into
the Endpoints ``kubernetes``. Without them a kube-apiserver and a server of Cathedra on one etcd would replace each
other's address there for ever.

Source: ``pkg/controlplane/reconcilers/lease.go``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from cathedra.api.core.core_v1 import EndpointAddress, Endpoints, EndpointSubset
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.protobuf import MAGIC, ProtobufError, decode_message, encode_message, unwrap, wrap
from cathedra.api.scheme import kind_of
from cathedra.api.struct import decode
from cathedra.api.undecodable import FAULTS
from cathedra.apiserver.storage.protocol import ExpiringStorage, StorageError, Superseded

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
