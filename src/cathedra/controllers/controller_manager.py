"""All controllers in one process, as Kubernetes' controller manager has them.

`ControllerManager` makes the controllers that the feature gates allow, lets them share informers and runs them until it
is cancelled; with a `LeaderElector` only while this process leads (docs/spec/controllers.md §1 and §12).
"""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.client.client import Client
from cathedra.client.informer import InformerObserver, SharedInformers
from cathedra.client.leaderelection import LeaderElector
from cathedra.client.resources import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    PODGROUPS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCEPOOLSTATUSREQUESTS,
    RESOURCESLICES,
    WORKLOADS,
)
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock
from cathedra.controllers.administration.clusterroles import ClusterRoleAggregationController
from cathedra.controllers.administration.disruptions import DisruptionController
from cathedra.controllers.administration.podgroups import PodGroupProtectionController
from cathedra.controllers.administration.policystatus import ValidatingAdmissionPolicyStatusController
from cathedra.controllers.administration.quotas import ResourceQuotaController
from cathedra.controllers.administration.volumes import ClaimProtectionController, VolumeProtectionController
from cathedra.controllers.bootstraptokens import BootstrapSignerController, TokenCleanerController
from cathedra.controllers.certificates import CSRApprovingController, CSRCleanerController, CSRSigningController
from cathedra.controllers.controller import Controller, ControllerContext
from cathedra.controllers.devicetaints.controller import DeviceTaintEvictionController
from cathedra.controllers.endpointslices import EndpointSliceController
from cathedra.controllers.garbagecollector import GarbageCollector
from cathedra.controllers.job.controller import JobController
from cathedra.controllers.job.cronjob import CronJobController
from cathedra.controllers.job.ttl import TTLAfterFinishedController
from cathedra.controllers.namespaces import NamespaceController, RootCAPublisher, ServiceAccountController
from cathedra.controllers.nodes.lifecycle import NodeLifecycleController
from cathedra.controllers.nodes.podgc import PodGarbageCollector
from cathedra.controllers.nodes.tainteviction import TaintEvictionController
from cathedra.controllers.poolstatus import ResourcePoolStatusRequestController
from cathedra.controllers.resourceclaim.controller import ResourceClaimController
from cathedra.controllers.workloads.daemonset import DaemonSetController
from cathedra.controllers.workloads.deployment import DeploymentController
from cathedra.controllers.workloads.replicaset import ReplicaSetController, ReplicationControllerController
from cathedra.controllers.workloads.statefulset import StatefulSetController
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from cathedra.client.queuemetrics import QueueMetrics
    from cathedra.controllers.certificates import Signer

FIELD_MANAGER: Final = "kube-controller-manager"

MakeController = Callable[[ControllerContext], Controller]

CONTROLLERS: Final[Mapping[str, MakeController]] = {
    "resourceclaim-controller": ResourceClaimController,
    "device-taint-eviction-controller": DeviceTaintEvictionController,
    "resourcepoolstatusrequest-controller": ResourcePoolStatusRequestController,
    "job-controller": JobController,
    "cronjob-controller": CronJobController,
    "ttl-after-finished-controller": TTLAfterFinishedController,
    "replicaset-controller": ReplicaSetController,
    "replicationcontroller-controller": ReplicationControllerController,
    "deployment-controller": DeploymentController,
    "statefulset-controller": StatefulSetController,
    "daemonset-controller": DaemonSetController,
    "endpointslice-controller": EndpointSliceController,
    "node-lifecycle-controller": NodeLifecycleController,
    "taint-eviction-controller": TaintEvictionController,
    "pod-garbage-collector-controller": PodGarbageCollector,
    "garbage-collector-controller": GarbageCollector,
    "namespace-controller": NamespaceController,
    "serviceaccount-controller": ServiceAccountController,
    "root-ca-certificate-publisher-controller": RootCAPublisher,
    "clusterrole-aggregation-controller": ClusterRoleAggregationController,
    "resourcequota-controller": ResourceQuotaController,
    "podgroup-protection-controller": PodGroupProtectionController,
    "persistentvolume-protection-controller": VolumeProtectionController,
    "persistentvolumeclaim-protection-controller": ClaimProtectionController,
    "disruption-controller": DisruptionController,
    "certificatesigningrequest-signing-controller": CSRSigningController,
    "certificatesigningrequest-approving-controller": CSRApprovingController,
    "certificatesigningrequest-cleaner-controller": CSRCleanerController,
    "bootstrap-signer-controller": BootstrapSignerController,
    "token-cleaner-controller": TokenCleanerController,
    "validatingadmissionpolicy-status-controller": ValidatingAdmissionPolicyStatusController,
}
"""Every controller by its name in Kubernetes."""

_ACCOUNTS: Final[Mapping[str, str]] = {
    "resourceclaim-controller": "resource-claim-controller",
    "daemonset-controller": "daemon-set-controller",
    "replicationcontroller-controller": "replication-controller",
    "node-lifecycle-controller": "node-controller",
    "taint-eviction-controller": "node-controller",
    "pod-garbage-collector-controller": "pod-garbage-collector",
    "garbage-collector-controller": "generic-garbage-collector",
    "serviceaccount-controller": "service-account-controller",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "certificatesigningrequest-signing-controller": "certificate-controller",
    "certificatesigningrequest-approving-controller": "certificate-controller",
    "certificatesigningrequest-cleaner-controller": "certificate-controller",
    "bootstrap-signer-controller": "bootstrap-signer",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "token-cleaner-controller": "token-cleaner",
}
"""Service accounts whose names differ from their controllers'."""

_QUEUES: Final[Mapping[str, str]] = {
    "resourceclaim-controller": "resource_claim",
    "device-taint-eviction-controller": "device_taint_eviction",
    "resourcepoolstatusrequest-controller": "resource_pool_status_request",
    "ttl-after-finished-controller": "ttl_jobs_to_delete",
    "endpointslice-controller": "endpoint_slice",
    "node-lifecycle-controller": "node_lifecycle_controller",
    "taint-eviction-controller": "noexec_taint_node",
    "garbage-collector-controller": "garbage_collector_attempt_to_delete",
    "root-ca-certificate-publisher-controller": "root_ca_cert_publisher",
    "clusterrole-aggregation-controller": "ClusterRoleAggregator",
    "resourcequota-controller": "resourcequota_primary",
    "podgroup-protection-controller": "podgroup_protection",
    "persistentvolume-protection-controller": "pvprotection",
    "persistentvolumeclaim-protection-controller": "pvcprotection",
    "certificatesigningrequest-signing-controller": "certificate",
    "certificatesigningrequest-approving-controller": "certificate",
    "bootstrap-signer-controller": "bootstrap_signer_queue",
    "validatingadmissionpolicy-status-controller": "validatingadmissionpolicy-status",
    "token-cleaner-controller": "token_cleaner",
}
"""Names of queues in metrics, where they are not the controllers' without their last word."""

_ALIASES: Final[Mapping[str, str]] = {
    "ttl-after-finished": "ttl-after-finished-controller",
    "nodelifecycle": "node-lifecycle-controller",
    "csrsigning": "certificatesigningrequest-signing-controller",
    "csrapproving": "certificatesigningrequest-approving-controller",
    "csrcleaner": "certificatesigningrequest-cleaner-controller",
    "bootstrapsigner": "bootstrap-signer-controller",
    "tokencleaner": "token-cleaner-controller",
    "pv-protection": "persistentvolume-protection-controller",
    "pv-protection-controller": "persistentvolume-protection-controller",
    "pvc-protection": "persistentvolumeclaim-protection-controller",
    "pvc-protection-controller": "persistentvolumeclaim-protection-controller",
    "podgc": "pod-garbage-collector-controller",
    "garbagecollector": "garbage-collector-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "resource-claim-controller": "resourceclaim-controller",
}
"""Older names of controllers, which ``--controllers`` takes too."""

_GATES: Final[Mapping[str, str]] = {
    "resourceclaim-controller": "DynamicResourceAllocation",
    "device-taint-eviction-controller": "DRADeviceTaints",
    "resourcepoolstatusrequest-controller": "DRAResourcePoolStatus",
    "podgroup-protection-controller": "GenericWorkload",
}
"""The feature gates without which a controller does not start."""


class UnknownController(ValueError):
    """There is no controller with that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name!r} is not in the list of known controllers: {', '.join(CONTROLLERS)}")


@dataclass(frozen=True, kw_only=True)
class ControllerOptions:
    """Selection of controllers, and their dependencies beside the client."""

    controllers: Collection[str] | None = None
    """Names of the controllers to run; None: all."""
    informers: SharedInformers | None = None
    """Informers shared with other parts. Their owner runs them; None: the manager makes and runs its own."""
    root_ca: str = ""
    """The PEM that is published to pods for the verification of the API server."""
    served: tuple[ResourceRef[KubeObject], ...] | None = None
    """Resources that the garbage collector watches; None: every built-in kind."""
    client_of: Callable[[str], Client] | None = None
    """Returns the client of a controller's own service account in kube-system; None: all use the manager's client."""
    metrics: QueueMetrics | None = None
    observer: InformerObserver | None = None
    """Is notified of objects that informers cannot use."""
    registry: CollectorRegistry | None = None
    """Receives the controllers' own metrics."""
    signer: Signer | None = None
    """Signs the certificates that are requested through the API."""
    replaced: Mapping[str, MakeController] = field(default_factory=dict)
    """Controllers that replace those of the same name, for older releases."""


class ControllerManager:
    """The control loops of a cluster."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        random: random_module.Random,
        gates: FeatureGates,
        options: ControllerOptions = ControllerOptions(),
        elector: LeaderElector | None = None,
    ) -> None:
        """Set up the selected controllers; nothing runs before `run`.

        Raises:
            UnknownController: ``options`` selects a name that does not exist.
        """
        self._informers = options.informers or SharedInformers(client, clock, options.observer)
        self._owns_informers = options.informers is None
        self._elector = elector
        context = ControllerContext(
            client=client.as_manager(FIELD_MANAGER),
            informers=self._informers,
            clock=clock,
            random=random,
            gates=gates,
            root_ca=options.root_ca,
            served=served_resources(gates) if options.served is None else options.served,
            metrics=options.metrics,
            registry=options.registry,
            signer=options.signer,
        )
        for name in options.controllers or ():
            if name not in CONTROLLERS:
                raise UnknownController(name)
        wanted = CONTROLLERS if options.controllers is None else options.controllers
        self.controllers: tuple[Controller, ...] = tuple(
            make(_as_itself(context, name, options.client_of))
            for name, make in {**CONTROLLERS, **options.replaced}.items()
            # In the order of CONTROLLERS, not of the selection: runs with the same seed must do the same.
            if name in wanted and (name not in _GATES or context.enabled(_GATES[name]))
        )

    @property
    def informers(self) -> SharedInformers:
        """Informers that the controllers share."""
        return self._informers

    async def run(self) -> None:
        """Run all controllers until cancelled.

        Raises:
            LostLeadership: another process may lead now; everything has stopped.
        """
        if self._elector is None:
            await self._run_all()
            return
        # Controllers run only while the lease is held: two managers at once would create every pod twice.
        await self._elector.run(self._run_all)

    async def _run_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            # Informers of a cluster in one process are shared with the scheduler, and run by their owner.
            if self._owns_informers:
                # Beside the controllers: each waits for the informers that it uses.
                group.create_task(self._informers.run(), name="informers")
            for controller in self.controllers:
                group.create_task(controller.run(), name=controller.name)


def service_accounts() -> frozenset[str]:
    """Return the accounts in kube-system that controllers are, one or several of them each."""
    return frozenset(map(account_of, CONTROLLERS))


def account_of(controller: str) -> str:
    """Return the name of the service account in kube-system that a controller runs as."""
    return _ACCOUNTS.get(controller, controller)


def selected(text: str) -> tuple[str, ...]:
    """Return the controllers that ``--controllers`` means: names, ``*`` for those on by default, ``-name`` for without
    it.

    Raises:
        UnknownController: a name is not known.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word != "*" and _known(word.removeprefix("-")) is None:
            raise UnknownController(word.removeprefix("-"))
    meant = {word: _known(word.removeprefix("-")) for word in words}
    named = {name for word, name in meant.items() if not word.startswith("-")}
    without = {name for word, name in meant.items() if word.startswith("-")}
    return tuple(name for name in CONTROLLERS if name in named or ("*" in words and name not in without))


def _known(name: str) -> str | None:
    name = _ALIASES.get(name, name)
    if name in CONTROLLERS:
        return name
    return f"{name}-controller" if f"{name}-controller" in CONTROLLERS else None


def _as_itself(context: ControllerContext, name: str, client_of: Callable[[str], Client] | None) -> ControllerContext:
    context = msgspec.structs.replace(context, queue_name=_QUEUES.get(name, name.removesuffix("-controller")))
    if client_of is None:
        return context
    # Each controller has its own rights, so that a missing rule shows up as in Kubernetes.
    client = client_of(account_of(name)).as_manager(FIELD_MANAGER)
    return msgspec.structs.replace(context, client=client)


_GATED: Final[Mapping[ResourceRef[KubeObject], str]] = {
    PODGROUPS: "GenericWorkload",
    WORKLOADS: "GenericWorkload",
    DEVICETAINTRULES: "DRADeviceTaintRules",
    RESOURCEPOOLSTATUSREQUESTS: "DRAResourcePoolStatus",
    **dict.fromkeys(
        (DEVICECLASSES, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, RESOURCESLICES), "DynamicResourceAllocation"
    ),
}
"""Kinds of which some release serves no version by default → their gate."""


def served_resources(
    gates: FeatureGates, served: Iterable[AnyDefinition] | None = None
) -> tuple[ResourceRef[KubeObject], ...]:
    """Return every built-in resource whose objects can be watched and deleted, in its preferred version.

    ``served`` are the resources of a server that does not serve its release's defaults. Without them, resources behind
    an enabled gate are included, although a server serves them only on request; if it does not, they have no objects.
    Events are left out: they have no owners, and nothing has to watch them. They expire, or go with their namespace.
    """
    refs: list[ResourceRef[KubeObject]] = []
    for definition in all_definitions(gates) if served is None else served:
        if definition.kind == "Event" or not {"list", "watch", "delete"} <= set(definition.verbs):
            continue
        if definition.gate and not gates[definition.gate]:
            continue
        version = next((v for v in definition.versions if v.served_by_default or served is not None), None)
        if version is not None:
            names = (definition.group, version.name, definition.plural, definition.kind)
            refs.append(ResourceRef(*names, definition.namespaced, version.type))
    if served is None:
        listed = {(ref.group, ref.resource) for ref in refs}
        # In the form in which clients know the kind; which version the server has, they find out.
        refs += [ref for ref, gate in _GATED.items() if gates[gate] and (ref.group, ref.resource) not in listed]
    return tuple(refs)
