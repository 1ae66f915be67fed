"""APIService objects: one for each group and version of this server, and the state of those that others serve.

Those of built-in groups are made when the server starts, those of custom resources come and go with their definitions;
all are always available. The servers behind the others are probed every half minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import msgspec

from cathedra.api.core.apiregistration_v1 import APIService, APIServiceCondition, APIServiceSpec
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.apiserver.admission.plugin import AdmissionChain
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.registry.registry import WriteConflict
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.request import Call
from cathedra.apiserver.routes import METRICS_GROUP
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.create import create
from cathedra.apiserver.verbs.delete import delete
from cathedra.apiserver.verbs.update import change, update

_LOG: Final = logging.getLogger(__name__)
API_SERVICES: Final = GroupResource("apiregistration.k8s.io", "apiservices")
AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
PROBE_SECONDS: Final = 30.0
Verdict = tuple[str, str, str]
"""Status, reason and message of the condition Available."""
_LOCAL: Final[Verdict] = ("True", "Local", "Local APIServices are always available")
_CUSTOM: Final = (1000, 100)
_UNRANKED: Final = 9
_GROUPS: Final = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000,
}
_VERSIONS: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("admissionregistration.k8s.io", "v1beta1"): 12,
    ("resource.k8s.io", "v1beta2"): 12,
    ("resource.k8s.io", "v1alpha3"): 1,
}
_STABLE: Final = 15
Probe = Callable[[APIService], Awaitable[Verdict]]


class APIServiceKeeper:
    """Keeps the APIService objects; `run` until cancelled."""

    def __init__(self, server: ServerContext, catalog: Catalog, probe: Probe) -> None:
        """``probe`` calls the server behind an APIService."""
        self._server = msgspec.structs.replace(server, admission=AdmissionChain(()))
        self._catalog = catalog
        self._probe = probe
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Keep local objects at once when the served kinds change, and probe the other servers every half minute."""
        self._catalog.observe(self._changed.set)
        self._server.registry.observe(API_SERVICES, lambda _: self._changed.set())
        while True:
            # Cleared first: a change during the reconciliation causes another one.
            self._changed.clear()
            await self.reconcile()
            waiting = asyncio.ensure_future(self._changed.wait())
            pausing = asyncio.ensure_future(self._server.clock.sleep(PROBE_SECONDS))
            try:
                await asyncio.wait((waiting, pausing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                pausing.cancel()

    async def reconcile(self) -> None:
        """Create, correct and remove local objects, and probe the others, all at once. Failed writes are retried."""
        wanted = {service.metadata.name: service for service in self._local()}
        present = {entry.key: entry.object for entry in self._server.registry.table(API_SERVICES).select(Selection(""))}
        attempts = [self._attempt(name, self._keep(one, present.get(name))) for name, one in wanted.items()]
        for name, found in present.items():
            if name not in wanted and found.metadata.labels.get(AUTOMANAGED) == "true":
                deleted = delete(self._server, self._call("delete", name), DeleteOptions())
                attempts.append(self._attempt(name, deleted))
            elif found.spec.service is not None:
                attempts.append(self._attempt(name, self._check(found)))
        await asyncio.gather(*attempts)

    async def _check(self, service: APIService) -> None:
        await self._set_available(service, await self._probe(service))

    async def _attempt(self, name: str, doing: Awaitable[Any]) -> None:
        try:
            await doing
        except (StatusError, StorageError, WriteConflict) as error:
            _LOG.warning("apiservices %s: %s", name, error)

    def _local(self) -> Iterator[APIService]:
        """Yield an object for each group and version that this server serves."""
        served = {
            (definition.group, version.name): definition.group not in _GROUPS
            for definition in self._catalog
            for version in definition.versions
            if definition.group != API_SERVICES.group
        }
        # A metrics server installs its own object for the metrics API, which would conflict with one made here.
        served |= {(one.group, one.version): False for one in self._catalog.virtual if one.group != METRICS_GROUP}
        for (group, name), custom in served.items():
            by_group, by_version = _CUSTOM if custom else (_GROUPS[group], _priority(group, name))
            spec = APIServiceSpec(
                group=group, version=name, group_priority_minimum=by_group, version_priority=by_version
            )
            labels = {AUTOMANAGED: "true" if custom else "onstart"}
            yield APIService(metadata=ObjectMeta(name=f"{name}.{group}", labels=labels), spec=spec)

    async def _keep(self, service: APIService, found: APIService | None) -> None:
        name = service.metadata.name
        if found is None:
            await create(self._server, self._call("create", ""), service)
        elif AUTOMANAGED not in found.metadata.labels:
            return  # an administrator put another server in the place of the local one
        elif found.spec != service.spec:
            await update(self._server, self._call("update", name), replace(found, spec=service.spec))
        if found is None or not any(one.reason == _LOCAL[1] for one in found.status.conditions):
            await self._set_available(service, _LOCAL)

    async def _set_available(self, service: APIService, verdict: Verdict) -> None:
        """Write the condition Available, if it has changed."""
        status, reason, message = verdict

        def changed(entry: Any) -> APIService:
            present: APIService = entry.object
            before = next((one for one in present.status.conditions if one.type == "Available"), None)
            since = Time(self._server.clock.now())
            if before is not None and before.status == status and before.last_transition_time is not None:
                since = before.last_transition_time
            condition = APIServiceCondition(
                type="Available", status=status, reason=reason, message=message, last_transition_time=since
            )
            others = tuple(one for one in present.status.conditions if one.type != "Available")
            return replace(present, status=replace(present.status, conditions=(condition, *others)))

        await change(self._server, self._call("update", service.metadata.name, "status"), changed)

    def _call(self, verb: str, name: str, subresource: str = "") -> Call:
        definition = self._server.registry.table(API_SERVICES).definition
        return Call.on(definition, definition.versions[0], user=LOOPBACK, verb=verb, name=name, subresource=subresource)


def _priority(group: str, version: str) -> int:
    known = _VERSIONS.get((group, version))
    if known is not None:
        return known
    return _STABLE if "alpha" not in version and "beta" not in version else _UNRANKED
