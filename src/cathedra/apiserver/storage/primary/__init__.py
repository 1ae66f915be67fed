"""The store of another API server: further processes of a cluster may have API servers on the first one's store.

So Kubernetes runs several kube-apiservers on one etcd. `messages` is what passes between the two over a pair of
sockets, and `store` the replica's end; the primary's is `cathedra.apiserver.registry.replicas`.
"""

from cathedra.apiserver.storage.primary.store import PrimaryStore

__all__ = ["PrimaryStore"]
