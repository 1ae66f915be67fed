"""Defaults of a new pod from other objects: service account, priority, tolerations, credentials
(docs/spec/apimachinery.md §16.2).

Defaults that depend on the pod alone belong to the kind (`cathedra.kinds.core.pods.defaults`). Those here depend on
other objects, or are an operator's choice in Kubernetes. Pods that share one spec object still do afterwards, until
each gets a volume with a name of its own. So that comes last.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Sequence
from typing import Any, Final

from cathedra.api.core.core_v1 import (
    ConfigMapProjection,
    Container,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    Pod,
    PodSpec,
    ProjectedVolumeSource,
    ServiceAccount,
    ServiceAccountTokenProjection,
    Toleration,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.authorization.noderelations import references
from cathedra.apiserver.names import generate_name
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.routes import PODS
from cathedra.clock import Clock
from cathedra.kinds.core.pods.equivalence import declare_credentials
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import FeatureGates
from cathedra.remembering import IDENTITY, TEMPLATES, remembered
from cathedra.semantics.pods import is_mirror
from cathedra.semantics.tolerations import concerns_taint

SERVICE_ACCOUNTS: Final = GroupResource("", "serviceaccounts")
_SCHEDULING: Final = "scheduling.k8s.io"
PRIORITY_CLASSES: Final = GroupResource("scheduling.k8s.io", "priorityclasses")
DEFAULT_ACCOUNT: Final = "default"
ACCOUNT_ATTEMPTS: Final = 10
"""Attempts to find the account ``default``: its controller makes it a moment after the namespace."""
ACCOUNT_PAUSE: Final = 0.1
"""Seconds between two attempts, and up to as much again."""
TOLERATED_SECONDS: Final = 300

SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every cluster has."""


class PodServiceAccount(AdmissionPlugin):
    """Kubernetes' plugin ServiceAccount: every pod has a service account that exists."""

    name = "ServiceAccount"
    kinds = frozenset({PODS})

    def __init__(self, registry: Registry, *, required: bool, clock: Clock, random: random_module.Random) -> None:
        self._registry = registry
        self._required = required
        self._clock = clock
        self._random = random

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle new pods, which alone get defaults."""
        return operation == "CREATE" and not subresource

    def admit(self, request: AdmissionAttributes) -> Any:
        """Fill in the account and its pull secrets; wait for the account if it is missing.

        Raises:
            StatusError: 403, the account is missing where it is required, or a mirror pod names one.
        """
        pod: Pod = request.object
        if is_mirror(pod):
            _check_mirror(pod)
            return pod
        name = pod.spec.service_account_name or DEFAULT_ACCOUNT
        namespace = request.call.namespace
        account = self._registry.find(SERVICE_ACCOUNTS, f"{namespace}/{name}")
        if account is None and self._required:
            return self._with_awaited_account(request, namespace, name)
        return replace(pod, spec=_acting(pod.spec, account))

    async def _with_awaited_account(self, request: AdmissionAttributes, namespace: str, name: str) -> Pod:
        pod: Pod = request.object
        account = await self._awaited_account(namespace, name)
        if account is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(PODS, request.name or pod.metadata.generate_name, why)
        return replace(pod, spec=_acting(pod.spec, account))

    async def _awaited_account(self, namespace: str, name: str) -> ServiceAccount | None:
        """Wait for the account ``default``, so that one manifest can create a namespace and its pods.

        Returns None for every other account, and after `ACCOUNT_ATTEMPTS`.
        """
        if name != DEFAULT_ACCOUNT:
            return None
        for _ in range(ACCOUNT_ATTEMPTS - 1):
            # At random, so that a thousand pods of one manifest do not all try at the same moment.
            await self._clock.sleep(ACCOUNT_PAUSE * (1 + self._random.random()))
            found: ServiceAccount | None = self._registry.find(SERVICE_ACCOUNTS, f"{namespace}/{name}")
            if found is not None:
                return found
        return None


# Pods of a workload share their spec, and still do after each of these steps: memos of later steps find it by identity.
@remembered("specs of pods with their accounts", key=IDENTITY, size=TEMPLATES)
def _acting(spec: PodSpec, account: ServiceAccount | None) -> PodSpec:
    """Return the spec of a pod with its account, by default ``default``, and the account's pull secrets."""
    name = spec.service_account_name or DEFAULT_ACCOUNT
    secrets = spec.image_pull_secrets
    if account is not None and not secrets:
        secrets = account.image_pull_secrets
    # Both names of the field, as in Kubernetes: old clients read `serviceAccount`.
    return replace(spec, service_account_name=name, service_account=name, image_pull_secrets=secrets)


class PodCredentials(AdmissionPlugin):
    """The other half of Kubernetes' plugin ServiceAccount: the volume with the token of a pod's account."""

    kinds = frozenset({PODS})

    def __init__(self, registry: Registry, random: random_module.Random) -> None:
        self._registry = registry
        self._random = random

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle new pods, which alone get defaults."""
        return operation == "CREATE" and not subresource

    def admit(self, request: AdmissionAttributes) -> Any:
        """Add the volume, and mount it into every container."""
        pod: Pod = request.object
        spec = pod.spec
        if is_mirror(pod):
            return pod
        account = self._registry.find(SERVICE_ACCOUNTS, f"{request.call.namespace}/{spec.service_account_name}")
        if account is None:
            return pod
        made = with_credentials(spec, account, self._random)
        if made is spec:
            return pod
        if not mentions_credentials(spec):
            declare_credentials(made, spec, account)
        return replace(pod, spec=made)


def _check_mirror(pod: Pod) -> None:
    """Refuse a mirror pod that mounts something: a node makes them itself, and would get the right to read it."""
    sources = [part for volume in pod.spec.volumes if volume.projected for part in volume.projected.sources or ()]
    refused = (
        (bool(pod.spec.service_account_name), "reference service accounts"),
        (any(resource == "secrets" for resource, _ in references(pod)), "reference secrets"),
        (any(part.service_account_token for part in sources), "use ServiceAccountToken volume projections"),
        (any(part.pod_certificate for part in sources), "use PodCertificate volume projections"),
    )
    for found, what in refused:
        if found:
            raise forbidden(PODS, pod.metadata.name, f"a mirror pod may not {what}")


class PodPriority(AdmissionPlugin):
    """Kubernetes' plugin Priority: the class's value, or that of the cluster's default class, or 0."""

    name = "Priority"
    kinds = frozenset({PODS})

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._default: tuple[str, int, str] | None = None
        """Priority of pods that name no class; kept until a class is written."""
        # Without it, each new pod would cost a search through all classes.
        registry.observe(PRIORITY_CLASSES, self._forget_default)

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle new pods, which alone get defaults."""
        return operation == "CREATE" and not subresource

    def admit(self, request: AdmissionAttributes) -> Any:
        """Fill in priority and preemption policy.

        Raises:
            StatusError: 403, the class is missing, or the pod has another priority than its class.
        """
        pod: Pod = request.object
        name, value, policy = self._chosen(pod, request)
        if pod.spec.priority is not None and pod.spec.priority != value:
            raise forbidden(
                PODS,
                request.name,
                f"the integer value of priority ({pod.spec.priority}) must not be provided in pod spec; priority "
                f"admission controller computed {value} from the given PriorityClass name",
            )
        given = pod.spec.preemption_policy
        if given is not None and given != policy:
            raise forbidden(
                PODS,
                request.name,
                f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {policy} from the given PriorityClass name",
            )
        return replace(pod, spec=_prioritized(pod.spec, name, value, policy))

    def _chosen(self, pod: Pod, request: AdmissionAttributes) -> tuple[str, int, str]:
        return self.of_class(pod.spec.priority_class_name, request)

    def of_class(self, name: str, request: AdmissionAttributes) -> tuple[str, int, str]:
        """Return name, value and preemption policy of a class; without a name, of the cluster's default.

        Raises:
            StatusError: 403, there is no such class.
        """
        if name:
            found: PriorityClass | None = self._registry.find(PRIORITY_CLASSES, name)
            # Pods of the control plane may come before the controller that makes these classes.
            if found is None and name in SYSTEM_PRIORITIES:
                return name, SYSTEM_PRIORITIES[name], "PreemptLowerPriority"
            if found is None:
                resource = request.definition.group_resource
                raise forbidden(resource, request.name, f"no PriorityClass with name {name} was found")
            return name, found.value, found.preemption_policy or "PreemptLowerPriority"
        if self._default is None:
            self._default = self._of_cluster()
        return self._default

    def _of_cluster(self) -> tuple[str, int, str]:
        """Return the priority of pods that name no class. Of several default classes the lowest value counts."""
        try:
            table = self._registry.table(PRIORITY_CLASSES)
        except KeyError:
            return "", 0, "PreemptLowerPriority"
        found: list[PriorityClass] = [e.object for e in table.select(Selection("")) if e.object.global_default]
        default = min(found, key=lambda one: one.value, default=None)
        if default is None:
            return "", 0, "PreemptLowerPriority"
        return default.metadata.name, default.value, default.preemption_policy or "PreemptLowerPriority"

    def _forget_default(self, _: StoredChange) -> None:
        self._default = None


class GroupPriority(PodPriority):
    """The plugin Priority for pod groups, whose pods must have the same priority (KEP-5710)."""

    kinds = frozenset({GroupResource(_SCHEDULING, "podgroups"), GroupResource(_SCHEDULING, "compositepodgroups")})

    def __init__(self, registry: Registry, gates: FeatureGates) -> None:
        super().__init__(registry)
        self._has_policies = gates.get("PodGroupPreemptionPolicy", False)

    def admit(self, request: AdmissionAttributes) -> Any:
        """Fill in priority and, behind its gate, preemption policy.

        Raises:
            StatusError: 403, the class is missing, or the group has another priority than its class.
        """
        spec = request.object.spec
        name, value, policy = self.of_class(spec.priority_class_name, request)
        if spec.priority is not None and spec.priority != value:
            raise forbidden(
                request.definition.group_resource,
                request.name,
                f"the integer value of priority ({spec.priority}) must not be provided in pod group spec; priority "
                f"admission controller computed {value} from the given PriorityClass name",
            )
        made = replace(spec, priority_class_name=name, priority=value)
        if self._has_policies and spec.preemption_policy is None:
            made = replace(made, preemption_policy=policy)
        return replace(request.object, spec=made)


@remembered("specs of pods with priorities", key=IDENTITY, size=TEMPLATES)
def _prioritized(spec: PodSpec, name: str, value: int, policy: str) -> PodSpec:
    return replace(spec, priority_class_name=name, priority=value, preemption_policy=policy)


class DefaultTolerations(AdmissionPlugin):
    """Kubernetes' plugin DefaultTolerationSeconds: a pod stays on an unreachable node for five minutes.

    It acts on updates as well: a patch that replaces the list of tolerations need not repeat these.
    """

    name = "DefaultTolerationSeconds"
    kinds = frozenset({PODS})

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle pods, but not their sub-resources."""
        return operation in {"CREATE", "UPDATE"} and not subresource

    def admit(self, request: AdmissionAttributes) -> Any:
        """Add the tolerations that the pod has no own word about."""
        pod: Pod = request.object
        spec = _tolerating(pod.spec)
        return pod if spec is pod.spec else replace(pod, spec=spec)


@remembered("specs of pods with default tolerations", key=IDENTITY, size=TEMPLATES)
def _tolerating(spec: PodSpec) -> PodSpec:
    tolerations = spec.tolerations
    added = tuple(
        Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=TOLERATED_SECONDS)
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if not any(concerns_taint(toleration, key, "NoExecute") for toleration in tolerations)
    )
    return replace(spec, tolerations=(*tolerations, *added)) if added else spec


# --- credentials ----------------------------------------------------------------------------------------------------


MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_PREFIX: Final = "kube-api-access-"
_TOKEN_SECONDS: Final = 3607
"""A little over an hour, by which API servers recognize the tokens that pods get by default."""
_MODE: Final = 0o644
_SOURCE: Final = ProjectedVolumeSource(
    sources=(
        VolumeProjection(
            service_account_token=ServiceAccountTokenProjection(expiration_seconds=_TOKEN_SECONDS, path="token")
        ),
        VolumeProjection(
            config_map=ConfigMapProjection(name="kube-root-ca.crt", items=(KeyToPath(key="ca.crt", path="ca.crt"),))
        ),
        VolumeProjection(
            downward_api=DownwardAPIProjection(
                items=(
                    DownwardAPIVolumeFile(
                        path="namespace",
                        field_ref=ObjectFieldSelector(api_version="v1", field_path="metadata.namespace"),
                    ),
                )
            )
        ),
    ),
    default_mode=_MODE,
)


def with_credentials(spec: PodSpec, account: ServiceAccount, random: random_module.Random) -> PodSpec:
    """Return the pod's spec with its credentials, mounted into each container that mounts nothing else there.

    It is unchanged if it or its account disables that, or if all containers mount something there.
    """
    if not _wants(spec, account):
        return spec
    existing = _existing(spec.volumes)
    name = existing or generate_name(_PREFIX, random)
    mount = VolumeMount(name=name, read_only=True, mount_path=MOUNT_PATH)
    return replace(
        spec,
        containers=_mounted(spec.containers, mount),
        init_containers=_mounted(spec.init_containers, mount) if spec.init_containers else spec.init_containers,
        volumes=spec.volumes if existing else (*spec.volumes, Volume(name=name, projected=_SOURCE)),
    )


def mentions_credentials(spec: PodSpec) -> bool:
    """Return True if a spec that was sent has a name in it that the volume with credentials may get."""
    named: list[Volume | VolumeMount] = [*spec.volumes]
    for one in (*spec.containers, *spec.init_containers):
        named += one.volume_mounts
    return bool(_existing(named))


def _wants(spec: PodSpec, account: ServiceAccount) -> bool:
    wanted = spec.automount_service_account_token
    if wanted is None:
        wanted = account.automount_service_account_token
    return wanted is not False and not all(map(_has_mount, (*spec.containers, *spec.init_containers)))


def _existing(named: Sequence[Volume | VolumeMount]) -> str:
    """Return the name of the pod's own volume with credentials, found by its prefix; "" if there is none."""
    for one in named:
        if one.name.startswith(_PREFIX):
            return one.name
    return ""


def _mounted(containers: tuple[Container, ...], mount: VolumeMount) -> tuple[Container, ...]:
    return tuple(
        [one if _has_mount(one) else replace(one, volume_mounts=(*one.volume_mounts, mount)) for one in containers]
    )


def _has_mount(container: Container) -> bool:
    mounts = container.volume_mounts
    return bool(mounts) and any(mount.mount_path == MOUNT_PATH for mount in mounts)
