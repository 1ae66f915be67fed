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


EVENTS: Final = "create patch events"


def _calls(*texts: str) -> frozenset[str]:
    """Return the calls of texts that have several verbs and the resource of all of them."""
    return frozenset(f"{verb} {text.split()[-1]}" for text in texts for verb in text.split()[:-1])


CALLS: Final[Mapping[str, frozenset[str]]] = {
    "resourceclaim-controller": _calls(
        EVENTS,
        "get list podgroups.scheduling.k8s.io",
        "patch podgroups.scheduling.k8s.io/status",
        "get pods",
        "patch pods/status",
        "create delete list update resourceclaims.resource.k8s.io",
        "update resourceclaims.resource.k8s.io/status",
    ),
    "device-taint-eviction-controller": _calls(
        EVENTS,
        "list devicetaintrules.resource.k8s.io",
        "patch devicetaintrules.resource.k8s.io/status",
        "delete get pods",
        "update pods/status",
    ),
    "resourcepoolstatusrequest-controller": _calls(
        "delete resourcepoolstatusrequests.resource.k8s.io", "update resourcepoolstatusrequests.resource.k8s.io/status"
    ),
    "job-controller": _calls(
        EVENTS,
        "list jobs.batch",
        "update jobs.batch/status",
        "create delete list patch pods",
        "create list update podgroups.scheduling.k8s.io",
        "create list update workloads.scheduling.k8s.io",
    ),
    "cronjob-controller": _calls(EVENTS, "update cronjobs.batch/status", "create delete get list jobs.batch"),
    "ttl-after-finished-controller": _calls("delete get jobs.batch"),
    "replicaset-controller": _calls(EVENTS, "create delete list patch pods", "update replicasets.apps/status"),
    "replicationcontroller-controller": _calls(
        EVENTS, "create delete list patch pods", "update replicationcontrollers/status"
    ),
    "deployment-controller": _calls(
        EVENTS,
        "get update deployments.apps",
        "update deployments.apps/status",
        "create delete get list update replicasets.apps",
    ),
    "statefulset-controller": _calls(
        EVENTS,
        "create delete list update controllerrevisions.apps",
        "create update persistentvolumeclaims",
        "create delete list patch update pods",
        "update statefulsets.apps/status",
    ),
    "daemonset-controller": _calls(
        EVENTS,
        "create delete list update controllerrevisions.apps",
        "update daemonsets.apps/status",
        "create delete list patch pods",
    ),
    "endpointslice-controller": _calls(EVENTS, "create delete list update endpointslices.discovery.k8s.io"),
    "node-lifecycle-controller": _calls(EVENTS, "update nodes", "update nodes/status", "update pods/status"),
    "taint-eviction-controller": _calls(EVENTS, "delete get pods", "update pods/status"),
    "pod-garbage-collector-controller": _calls("get nodes", "delete pods", "patch pods/status"),
    "garbage-collector-controller": _calls("create events", "delete get list patch *"),
    "namespace-controller": _calls("deletecollection list *", "update namespaces/finalize", "update namespaces/status"),
    "serviceaccount-controller": _calls("create serviceaccounts"),
    "root-ca-certificate-publisher-controller": _calls("create update configmaps"),
    "clusterrole-aggregation-controller": _calls("update clusterroles.rbac.authorization.k8s.io"),
    "resourcequota-controller": _calls("list *", "update resourcequotas/status"),
    "persistentvolume-protection-controller": _calls("list update watch persistentvolumes"),
    "persistentvolumeclaim-protection-controller": _calls(
        "list update watch persistentvolumeclaims", "list watch pods"
    ),
    "podgroup-protection-controller": _calls(
        "list update compositepodgroups.scheduling.k8s.io", "list update podgroups.scheduling.k8s.io"
    ),
    "disruption-controller": _calls(EVENTS, "update poddisruptionbudgets.policy/status", "patch pods/status"),
    "certificatesigningrequest-signing-controller": _calls(
        "update certificatesigningrequests.certificates.k8s.io/status"
    ),
    "certificatesigningrequest-approving-controller": _calls(
        "update certificatesigningrequests.certificates.k8s.io/approval",
        "create subjectaccessreviews.authorization.k8s.io",
    ),
    "certificatesigningrequest-cleaner-controller": _calls("delete certificatesigningrequests.certificates.k8s.io"),
    "bootstrap-signer-controller": _calls("update configmaps"),
    "token-cleaner-controller": _calls("delete secrets"),
    "validatingadmissionpolicy-status-controller": _calls(
        "patch validatingadmissionpolicies.admissionregistration.k8s.io/status"
    ),
}
"""Every call that a controller makes with its own account, by the controller's name; ``*`` is every resource.

Informers are not here: they are shared, and list and watch as the controller manager.
"""
