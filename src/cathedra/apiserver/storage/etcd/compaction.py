"""Compaction of old revisions, as kube-apiserver does it: every five minutes what is older than five minutes.

All servers take part; a transaction on one key, ``compact_rev_key``, lets one of them do the work of a round. Real API
servers on the same etcd use the same key and the same rule, so they do not get in each other's way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from cathedra._proto import etcd_pb2 as pb
from cathedra.apiserver.storage.etcd.connection import EtcdConnection
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.clock import Clock

__all__ = ["INTERVAL_SECONDS", "Compactor"]

LOG: Final = logging.getLogger(__name__)
INTERVAL_SECONDS: Final = 300.0
_KEY: Final = b"compact_rev_key"


class Compactor:
    """The part of one server in compaction."""

    def __init__(
        self, connection: EtcdConnection, clock: Clock, compacted: Callable[[int], None], interval: float
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._compacted = compacted
        self._interval = interval
        self._round = 0
        self._revision = 0

    async def run(self) -> None:
        """Run a round after each interval, until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            try:
                await self.compact()
            except StorageError as error:
                LOG.warning("compaction waits for the next round: %s", error)

    async def compact(self) -> None:
        """One round: if no other server has had it, forget what was old when this server's last round ended.

        Raises:
            StorageError: etcd does not answer; the next round makes up for it.
        """
        request = pb.TxnRequest(
            compare=[pb.Compare(result="EQUAL", target="VERSION", key=_KEY, version=self._round)],
            success=[pb.RequestOp(request_put=pb.PutRequest(key=_KEY, value=str(self._revision).encode()))],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=_KEY))],
        )
        answer = await self._connection.call(lambda stubs: stubs.kv.Txn(request))
        old, self._revision = self._revision, answer.header.revision
        if not answer.succeeded:
            kept = answer.responses[0].response_range.kvs[0]
            self._round = kept.version
            self._tell(int(kept.value or b"0"))
            return
        self._round += 1
        if old:
            await self._connection.call(lambda stubs: stubs.kv.Compact(pb.CompactionRequest(revision=old)))
            self._tell(old)

    def _tell(self, revision: int) -> None:
        if revision:
            self._compacted(revision)
