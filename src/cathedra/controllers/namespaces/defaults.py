"""Default objects of active namespaces: service account ``default`` and config map ``kube-root-ca.crt``.

Both are created again when they are deleted, and the certificate is restored when it is changed
(docs/spec/controllers.md §6).
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import ConfigMap, Namespace, ServiceAccount
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.resources import CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext

SERVICE_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_CA_KEY: Final = "ca.crt"
_DESCRIPTION: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
}


class ServiceAccountController:
    """Gives every active namespace its service account ``default``."""

    name = "serviceaccount-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._queue: WorkQueue[str] = context.queue()
        self._accounts = context.informers.of(SERVICEACCOUNTS)
        self._namespaces = _follow_namespaces(context.informers, self._queue)
        self._accounts.add_handler(on_delete=lambda account: self._queue.add(account.metadata.namespace))

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._namespaces.wait_synced()
        await self._accounts.wait_synced()
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, namespace: str) -> None:
        if not _is_active(self._namespaces, namespace) or self._accounts.store.get(namespace, SERVICE_ACCOUNT):
            return
        account = ServiceAccount(metadata=ObjectMeta(name=SERVICE_ACCOUNT, namespace=namespace))
        try:
            await self._client.resource(SERVICEACCOUNTS, namespace).create(account)
        except StatusError as error:
            if not _is_settled(error):
                raise


class RootCAPublisher:
    """Publishes the certificate authority of the API server in every active namespace."""

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._data = {_CA_KEY: context.root_ca}
        self._queue: WorkQueue[str] = context.queue()
        self._maps = context.informers.of(CONFIGMAPS)
        self._namespaces = _follow_namespaces(context.informers, self._queue)
        self._maps.add_handler(on_update=lambda _, new: self._changed(new), on_delete=self._changed)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._namespaces.wait_synced()
        await self._maps.wait_synced()
        await run_workers(self._queue, self._reconcile)

    def _changed(self, obj: KubeObject) -> None:
        # The informer has all config maps; without the test each change of any would be a reconciliation.
        if obj.metadata.name == ROOT_CA:
            self._queue.add(obj.metadata.namespace)

    async def _reconcile(self, namespace: str) -> None:
        if not _is_active(self._namespaces, namespace):
            return
        maps = self._client.resource(CONFIGMAPS, namespace)
        existing = self._maps.store.get(namespace, ROOT_CA)
        try:
            if existing is None:
                metadata = ObjectMeta(name=ROOT_CA, namespace=namespace, annotations=_DESCRIPTION)
                await maps.create(ConfigMap(metadata=metadata, data=self._data))
            elif existing.data != self._data:
                await maps.update(replace(existing, data=self._data))
        except StatusError as error:
            if not _is_settled(error):
                raise


def _follow_namespaces(informers: SharedInformers, queue: WorkQueue[str]) -> Informer[Namespace]:
    namespaces = informers.of(NAMESPACES)
    namespaces.add_handler(
        on_add=lambda namespace: queue.add(namespace.metadata.name),
        on_update=lambda _, namespace: queue.add(namespace.metadata.name),
    )
    return namespaces


def _is_active(namespaces: Informer[Namespace], name: str) -> bool:
    namespace = namespaces.store.get("", name)
    return namespace is not None and namespace.metadata.deletion_timestamp is None


def _is_settled(error: StatusError) -> bool:
    """Another client was faster, or the namespace is going away."""
    # None of them needs a retry: the object is there, or must not be.
    return error.is_already_exists or error.is_not_found or error.is_namespace_terminating
