"""etcd v3 as the store of several API servers: keys, transactions, watch and compaction as kube-apiserver has them.

`connection` reads ``--store etcd://…`` and calls whichever endpoint answers, and `store` is the store itself, with the
compaction of old revisions.
"""

from cathedra.apiserver.storage.etcd.connection import EtcdAddress
from cathedra.apiserver.storage.etcd.store import EtcdStorage

__all__ = ["EtcdAddress", "EtcdStorage"]
