"""The API calls of controllers: recorded, and compared with the calls that each controller is known to make."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, NamedTuple, Self

from cathedra.api.status import StatusError
from cathedra.client.transport import APICall, RawTransport, Transport


class RecordedCall(NamedTuple):
    """A verb on a resource or subresource; written ``verb resource.group/subresource``."""

    verb: str
    group: str
    resource: str
    subresource: str = ""

    def __str__(self) -> str:
        named = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {named}/{self.subresource}" if self.subresource else f"{self.verb} {named}"

    @classmethod
    def parse(cls, text: str) -> Self:
        verb, _, target = text.partition(" ")
        named, _, subresource = target.partition("/")
        resource, _, group = named.partition(".")
        return cls(verb, group, resource, subresource)


class CallRecorder:
    """A transport that records calls and refusals, and passes every call on to ``inner``."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.calls: set[RecordedCall] = set()
        self.denied: list[str] = []

    def check(self, controller: str) -> None:
        """Check the calls of a controller against its role and against the table of its calls.

        Raises:
            AssertionError: a call was refused for want of a right, or is not in the table.
        """
        assert not self.denied, f"{controller} lacks rights: {self.denied}"
        known = CALLS.get(controller)
        if known is None:
            return  # a controller of a test
        unknown = {str(call) for call in self.calls if not {str(call), f"{call.verb} *"} & known}
        assert not unknown, f"{controller} makes calls that tests/unit/controllers/calls.py does not list: {unknown}"

    async def call(self, call: APICall) -> Any:
        with self._recorded(call):
            return await self.inner.call(call)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[Any]:
        with self._recorded(call):
            async with self.inner.watch(call) as events:
                yield events

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        assert isinstance(self.inner, RawTransport)
        return await self.inner.get_raw(path, query)

    async def close(self) -> None:
        await self.inner.close()

    @contextmanager
    def _recorded(self, call: APICall) -> Iterator[None]:
        self.calls.add(RecordedCall(call.verb, call.ref.group, call.ref.resource, call.subresource))
        try:
            yield
        except StatusError as error:
            if error.code == 403 and "User " in error.status.message:
                self.denied.append(error.status.message)
            raise


def _calls(*texts: str) -> frozenset[str]:
    return frozenset(texts)


CALLS: Final[Mapping[str, frozenset[str]]] = {
    "resourceclaim-controller": _calls(
        "create events",
        "patch events",
        "get podgroups.scheduling.k8s.io",
        "list podgroups.scheduling.k8s.io",
        "patch podgroups.scheduling.k8s.io/status",
        "get pods",
        "patch pods/status",
        "create resourceclaims.resource.k8s.io",
        "delete resourceclaims.resource.k8s.io",
        "list resourceclaims.resource.k8s.io",
        "update resourceclaims.resource.k8s.io",
        "update resourceclaims.resource.k8s.io/status",
    ),
    "device-taint-eviction-controller": _calls(
        "list devicetaintrules.resource.k8s.io",
        "patch devicetaintrules.resource.k8s.io/status",
        "create events",
        "patch events",
        "delete pods",
        "get pods",
        "update pods/status",
    ),
    "resourcepoolstatusrequest-controller": _calls(
        "delete resourcepoolstatusrequests.resource.k8s.io",
        "update resourcepoolstatusrequests.resource.k8s.io/status",
    ),
    "job-controller": _calls(
        "create events",
        "patch events",
        "list jobs.batch",
        "update jobs.batch/status",
        "create pods",
        "delete pods",
        "list pods",
        "patch pods",
        "create podgroups.scheduling.k8s.io",
        "list podgroups.scheduling.k8s.io",
        "update podgroups.scheduling.k8s.io",
        "create workloads.scheduling.k8s.io",
        "list workloads.scheduling.k8s.io",
        "update workloads.scheduling.k8s.io",
    ),
    "cronjob-controller": _calls(
        "update cronjobs.batch/status",
        "create events",
        "patch events",
        "create jobs.batch",
        "delete jobs.batch",
        "get jobs.batch",
        "list jobs.batch",
    ),
    "ttl-after-finished-controller": _calls(
        "delete jobs.batch",
        "get jobs.batch",
    ),
    "replicaset-controller": _calls(
        "create events",
        "patch events",
        "create pods",
        "delete pods",
        "list pods",
        "patch pods",
        "update replicasets.apps/status",
    ),
    "replicationcontroller-controller": _calls(
        "create events",
        "patch events",
        "create pods",
        "delete pods",
        "list pods",
        "patch pods",
        "update replicationcontrollers/status",
    ),
    "deployment-controller": _calls(
        "get deployments.apps",
        "update deployments.apps",
        "update deployments.apps/status",
        "create events",
        "patch events",
        "create replicasets.apps",
        "delete replicasets.apps",
        "get replicasets.apps",
        "list replicasets.apps",
        "update replicasets.apps",
    ),
    "statefulset-controller": _calls(
        "create controllerrevisions.apps",
        "delete controllerrevisions.apps",
        "list controllerrevisions.apps",
        "update controllerrevisions.apps",
        "create events",
        "patch events",
        "create persistentvolumeclaims",
        "update persistentvolumeclaims",
        "create pods",
        "delete pods",
        "list pods",
        "patch pods",
        "update pods",
        "update statefulsets.apps/status",
    ),
    "daemonset-controller": _calls(
        "create controllerrevisions.apps",
        "delete controllerrevisions.apps",
        "list controllerrevisions.apps",
        "update controllerrevisions.apps",
        "update daemonsets.apps/status",
        "create events",
        "patch events",
        "create pods",
        "delete pods",
        "list pods",
        "patch pods",
    ),
    "endpointslice-controller": _calls(
        "create endpointslices.discovery.k8s.io",
        "delete endpointslices.discovery.k8s.io",
        "list endpointslices.discovery.k8s.io",
        "update endpointslices.discovery.k8s.io",
        "create events",
        "patch events",
    ),
    "node-lifecycle-controller": _calls(
        "create events",
        "patch events",
        "update nodes",
        "update nodes/status",
        "update pods/status",
    ),
    "taint-eviction-controller": _calls(
        "create events",
        "patch events",
        "delete pods",
        "get pods",
        "update pods/status",
    ),
    "pod-garbage-collector-controller": _calls(
        "get nodes",
        "delete pods",
        "patch pods/status",
    ),
    "garbage-collector-controller": _calls(
        "create events",
        "delete *",
        "get *",
        "list *",
        "patch *",
    ),
    "namespace-controller": _calls(
        "deletecollection *",
        "list *",
        "update namespaces/finalize",
        "update namespaces/status",
    ),
    "serviceaccount-controller": _calls(
        "create serviceaccounts",
    ),
    "root-ca-certificate-publisher-controller": _calls(
        "create configmaps",
        "update configmaps",
    ),
    "clusterrole-aggregation-controller": _calls(
        "update clusterroles.rbac.authorization.k8s.io",
    ),
    "resourcequota-controller": _calls(
        "list *",
        "update resourcequotas/status",
    ),
    "persistentvolume-protection-controller": _calls(
        "list persistentvolumes", "update persistentvolumes", "watch persistentvolumes"
    ),
    "persistentvolumeclaim-protection-controller": _calls(
        "list persistentvolumeclaims",
        "list pods",
        "update persistentvolumeclaims",
        "watch persistentvolumeclaims",
        "watch pods",
    ),
    "podgroup-protection-controller": _calls(
        "list compositepodgroups.scheduling.k8s.io",
        "update compositepodgroups.scheduling.k8s.io",
        "list podgroups.scheduling.k8s.io",
        "update podgroups.scheduling.k8s.io",
    ),
    "disruption-controller": _calls(
        "create events",
        "patch events",
        "update poddisruptionbudgets.policy/status",
        "patch pods/status",
    ),
    "certificatesigningrequest-signing-controller": _calls(
        "update certificatesigningrequests.certificates.k8s.io/status",
    ),
    "certificatesigningrequest-approving-controller": _calls(
        "update certificatesigningrequests.certificates.k8s.io/approval",
        "create subjectaccessreviews.authorization.k8s.io",
    ),
    "certificatesigningrequest-cleaner-controller": _calls(
        "delete certificatesigningrequests.certificates.k8s.io",
    ),
    "bootstrap-signer-controller": _calls(
        "update configmaps",
    ),
    "token-cleaner-controller": _calls(
        "delete secrets",
    ),
    "validatingadmissionpolicy-status-controller": _calls(
        "patch validatingadmissionpolicies.admissionregistration.k8s.io/status",
    ),
}
"""Every call that a controller makes with its own account, by the controller's name; ``*`` is every resource.

Informers are not here: they are shared, and list and watch as the controller manager.
"""
