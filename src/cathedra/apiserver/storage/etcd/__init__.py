"""etcd v3 as the store of several API servers: keys, transactions, watch and compaction as kube-apiserver has them.

`address` reads ``--store etcd://…``, `connection` calls whichever endpoint answers, `store` is the store itself, and
`compaction` forgets old revisions, one server at a time.
"""

from cathedra.apiserver.storage.etcd.address import EtcdAddress
from cathedra.apiserver.storage.etcd.store import EtcdStorage

__all__ = ["EtcdAddress", "EtcdStorage"]
