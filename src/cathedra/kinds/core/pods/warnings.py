"""Warnings about pods and templates: accepted values that are deprecated, without effect, or repeated.

Texts and order are those of Kubernetes (``pkg/api/pod/warnings.go``). Pods are warned of when they are made, templates
when they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import not_
from typing import Any, Final

from cathedra.api.core import core_v1, meta_v1
from cathedra.api.field import FieldPath
from cathedra.api.formats import dns_label
from cathedra.api.goquote import go_quote
from cathedra.api.quantity import NANO
from cathedra.kinds.core.pods.equivalence import spec_key
from cathedra.remembering import TEMPLATES, remembered
from cathedra.semantics.pods import containers_at

_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_VOLUMES: Final = (
    ("photon_persistent_disk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("git_repo", "gitRepo", "deprecated in v1.11"),
    ("scale_io", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_BYTES: Final = ("memory", "ephemeral-storage")
_COMPARED_PORTS: Final = 32
"""Ports of one number and protocol that later ones are compared with: answers show 80 warnings at most."""
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"
_RECOMMENDED: Final = "which can result in surprising behavior; a DNS label is recommended"

Container = core_v1.Container | core_v1.EphemeralContainer


def pod_warnings(pod: core_v1.Pod) -> Sequence[str]:
    """Return the warnings of a new pod."""
    if not pod.metadata.annotations:
        warnings = _spec_warnings(pod.spec)
    else:
        # Without those of AppArmor, which come before validation.
        annotations = {key: value for key, value in pod.metadata.annotations.items() if not key.startswith(_APPARMOR)}
        warnings = tuple(_warnings(FieldPath(""), annotations, pod.spec))
    if problems := dns_label(pod.metadata.name):
        noted = f"metadata.name: this is used in the Pod's hostname, {_RECOMMENDED}: [{' '.join(problems)}]"
        return (noted, *warnings)
    return warnings


def app_armor_warnings(pod: core_v1.Pod) -> Iterator[str]:
    """Return the warnings of a new pod's AppArmor annotations, which a refused pod has too: upstream reads these
    annotations while it prepares the pod (``applyAppArmorVersionSkew``)."""
    if any(key.startswith(_APPARMOR) for key in pod.metadata.annotations):
        noted = FieldPath("").child("metadata", "annotations")
        for _, container in containers_at(FieldPath("spec"), pod.spec):
            yield from _app_armor(noted, pod.metadata.annotations, pod.spec, container)


# Only pods without annotations: some warnings depend on these, and the key has the spec alone.
@remembered("specs of pods without warnings", key=spec_key, size=TEMPLATES, keep=not_)
def _spec_warnings(spec: core_v1.PodSpec) -> tuple[str, ...]:
    return tuple(_warnings(FieldPath(""), {}, spec))


def template_warnings(path: FieldPath, template: core_v1.PodTemplateSpec) -> Iterator[str]:
    """Return the warnings of a template at ``path``."""
    yield from _warnings(path, template.metadata.annotations, template.spec)


def workload_warnings(new: Any, old: Any) -> Iterator[str]:
    """Return the warnings of a workload with ``spec.template`` that is new, or whose spec has changed."""
    # Generation grows with the spec. Updates of status or labels must not repeat the warnings.
    if old is None or new.metadata.generation != old.metadata.generation:
        yield from template_warnings(FieldPath("spec").child("template"), new.spec.template)


def named_workload_warnings(new: Any, old: Any) -> Iterator[str]:
    """Yield the same, of a workload whose pods are named after it, and of that name."""
    if old is None:
        yield from name_warnings(new)
    yield from workload_warnings(new, old)


def name_warnings(workload: meta_v1.KubeObject) -> Iterator[str]:
    """Return the warnings of a new workload's name, which its pods get too."""
    if problems := dns_label(workload.metadata.name):
        yield f"metadata.name: this is used in Pod names and hostnames, {_RECOMMENDED}: [{' '.join(problems)}]"


def _warnings(path: FieldPath, annotations: dict[str, str], spec: core_v1.PodSpec) -> Iterator[str]:
    below = path.child("spec")
    noted = path.child("metadata", "annotations")
    yield from _node_labels(below, spec)
    for name, message in _ANNOTATIONS.items():
        if name in annotations:
            yield f"{noted.key(name)}: {message}"
    yield from _volumes(below.child("volumes"), spec.volumes)
    yield from _token_paths(below.child("volumes"), spec.volumes)
    yield from _repeated(below.child("hostAliases"), "ip", [alias.ip for alias in spec.host_aliases])
    secrets = [secret.name for secret in spec.image_pull_secrets]
    yield from _repeated(below.child("imagePullSecrets"), "name", secrets)
    for position, name in enumerate(secrets):
        if not name:
            yield f'{below.child("imagePullSecrets").index(position).child("name")}: invalid empty name ""'
    yield from _fractions(below.child("overhead"), spec.overhead)
    yield from _profiles_of_pod(noted, annotations, spec)
    for where, container in containers_at(below, spec):
        yield from _profiles(noted, annotations, spec, container)
        yield from _amounts(where.child("resources"), container)
        yield from _variables(where.child("env"), container.env)
    yield from _ports(below, spec)
    seconds = spec.termination_grace_period_seconds
    if seconds is not None and seconds < 0:
        where = below.child("terminationGracePeriodSeconds")
        yield f"{where}: must be >= 0; negative values are invalid and will be treated as 1"
    yield from _affinities(below.child("affinity"), spec.affinity)


def _node_labels(path: FieldPath, spec: core_v1.PodSpec) -> Iterator[str]:
    """Labels of nodes that have newer names, and constraints that match no pod."""
    for name in sorted(_NODE_LABELS.keys() & spec.node_selector.keys()):
        yield f"{path.child('nodeSelector').key(name)}: {_NODE_LABELS[name]}"
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None:
        below = path.child("affinity", "nodeAffinity")
        required = affinity.required_during_scheduling_ignored_during_execution
        where = below.child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
        for position, term in enumerate(required.node_selector_terms if required is not None else ()):
            yield from _term(where.index(position), term)
        where = below.child("preferredDuringSchedulingIgnoredDuringExecution")
        for position, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
            yield from _term(where.index(position).child("preference"), preferred.preference)
    for position, constraint in enumerate(spec.topology_spread_constraints):
        where = path.child("topologySpreadConstraints").index(position)
        key = constraint.topology_key
        if key in _NODE_LABELS:
            yield f"{where.child('topologyKey')}: {key} is {_NODE_LABELS[key]}"
        if constraint.label_selector is None:
            yield f"{where.child('labelSelector')}: {_NO_SELECTOR}"


def _term(path: FieldPath, term: core_v1.NodeSelectorTerm) -> Iterator[str]:
    for position, expression in enumerate(term.match_expressions):
        if expression.key in _NODE_LABELS:
            where = path.child("matchExpressions").index(position).child("key")
            yield f"{where}: {expression.key} is {_NODE_LABELS[expression.key]}"


def _volumes(path: FieldPath, volumes: Sequence[core_v1.Volume]) -> Iterator[str]:
    """Kinds of volumes that are no more."""
    for position, volume in enumerate(volumes):
        for field, name, message in _VOLUMES:
            if getattr(volume, field) is not None:
                yield f"{path.index(position).child(name)}: {message}"
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None:
            where = path.index(position).child("ephemeral", "volumeClaimTemplate", "spec", "resources")
            resources = template.spec.resources
            yield from _fractions(where.child("requests"), resources.requests, ("storage",))
            yield from _fractions(where.child("limits"), resources.limits, ("storage",))


def _token_paths(path: FieldPath, volumes: Sequence[core_v1.Volume]) -> Iterator[str]:
    """Files that lie where a token lies."""
    projected = [
        (position, volume.projected.sources or ())
        for position, volume in enumerate(volumes)
        if volume.projected is not None
    ]
    tokens = {
        one.service_account_token.path for _, sources in projected for one in sources if one.service_account_token
    }
    for position, sources in projected if tokens else ():
        where = path.index(position).child("projected", "sources")
        for source in sources:
            if source.config_map is not None:
                yield from _same_path(where.child("configMap"), tokens, source.config_map)
            if source.secret is not None:
                yield from _same_path(where.child("secrets"), tokens, source.secret)
            if source.downward_api is not None:
                yield from _same_path(where.child("downwardAPI"), tokens, source.downward_api)
            bundle = source.cluster_trust_bundle
            if bundle is not None and bundle.path in tokens:
                named = go_quote(bundle.path)
                yield f"{where.child('ClusterTrustBundle')}: has duplicated path with ServiceAccountToken {named}"


def _same_path(path: FieldPath, tokens: set[str], source: Any) -> Iterator[str]:
    for position, item in enumerate(source.items):
        if item.path in tokens:
            yield f"{path.index(position)}: has duplicated path with ServiceAccountToken {go_quote(item.path)}"


def _repeated(path: FieldPath, field: str, values: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for position, value in enumerate(values):
        if value in seen:
            yield f"{path.index(position).child(field)}: duplicate {field} {go_quote(value)}"
        seen.add(value)


def _fractions(path: FieldPath, amounts: dict[str, Any], names: Iterable[str] = _BYTES) -> Iterator[str]:
    """Warn of amounts that are fractions of bytes."""
    for name in names:
        amount = amounts.get(name)
        # Kubernetes calculates in thousandths, rounded up, so an amount of nano-units counts as one thousandth.
        if amount is not None and amount.milli_value() * 10**6 % NANO:
            shown = go_quote(str(amount))
            yield f"{path.key(name)}: fractional byte value {shown} is invalid, must be an integer"


def _amounts(path: FieldPath, container: Container) -> Iterator[str]:
    limits, requests = container.resources.limits, container.resources.requests
    for name in _BYTES:
        if name in limits:
            yield from _fractions(path.child("limits"), limits, (name,))
        if name in requests:
            yield from _fractions(path.child("requests"), requests, (name,))


def _profiles_of_pod(path: FieldPath, annotations: dict[str, str], spec: core_v1.PodSpec) -> Iterator[str]:
    context = spec.security_context
    if (context is None or context.seccomp_profile is None) and _SECCOMP in annotations:
        yield f'{path.key(_SECCOMP)}: non-functional in v1.27+; use the "seccompProfile" field instead'


def _profiles(
    path: FieldPath, annotations: dict[str, str], spec: core_v1.PodSpec, container: Container
) -> Iterator[str]:
    """Annotations that fields have replaced."""
    own = container.security_context
    name = f"{_SECCOMP_CONTAINER}{container.name}"
    if name in annotations and (own is None or own.seccomp_profile is None):
        yield f'{path.key(name)}: non-functional in v1.27+; use the "seccompProfile" field instead'
    yield from _app_armor(path, annotations, spec, container)


def _app_armor(
    path: FieldPath, annotations: dict[str, str], spec: core_v1.PodSpec, container: Container
) -> Iterator[str]:
    own = container.security_context
    name = f"{_APPARMOR}{container.name}"
    pods = spec.security_context is not None and spec.security_context.app_armor_profile is not None
    if name in annotations and not pods and (own is None or own.app_armor_profile is None):
        yield f'{path.key(name)}: deprecated since v1.30; use the "appArmorProfile" field instead'


def _variables(path: FieldPath, variables: Sequence[core_v1.EnvVar]) -> Iterator[str]:
    """Variables that hide others of the same name; one may build upon the other."""
    seen: set[str] = set()
    for position, variable in enumerate(variables):
        reference = f"$({variable.name})"
        builds = variable.value_from is None and variable.value != reference and reference in variable.value
        if variable.name in seen and not builds:
            named = go_quote(variable.name)
            hidden = f"hides previous definition of {named}, which may be dropped when using apply"
            yield f"{path.index(position)}: {hidden}"
        seen.add(variable.name)


def _ports(path: FieldPath, spec: core_v1.PodSpec) -> Iterator[str]:
    """Warn of ports that are repeated, or may be meant to be the same."""
    seen: dict[tuple[int, str], list[tuple[FieldPath, core_v1.ContainerPort]]] = {}
    for where, container in containers_at(path, spec):
        for position, port in enumerate(container.ports):
            at = where.child("ports").index(position)
            if port.host_ip and not port.host_port:
                shown = (
                    f"{{Name:{port.name} HostPort:{port.host_port} ContainerPort:{port.container_port} "
                    f"Protocol:{port.protocol} HostIP:{port.host_ip}}}"
                )
                yield f"{at}: hostIP set without hostPort: {shown}"
            others = seen.setdefault((port.container_port, port.protocol), [])
            for other_path, other in others:
                if word := _collision(port, other):
                    yield f"{at}: {word} port definition with {other_path}"
            # Each port is compared with all before it: 5,000 equal ports would take 12 million comparisons.
            if len(others) < _COMPARED_PORTS:
                others.append((at, port))


def _collision(port: core_v1.ContainerPort, other: core_v1.ContainerPort) -> str:
    if (port.host_ip, port.host_port) == (other.host_ip, other.host_port):
        return "duplicate"
    if not port.host_port or not other.host_port:
        return "overlapping"
    same = port.host_port == other.host_port and bool(port.host_ip) != bool(other.host_ip)
    return "dangerously ambiguous" if same else ""


def _affinities(path: FieldPath, affinity: core_v1.Affinity | None) -> Iterator[str]:
    """Terms about pods that match none."""
    if affinity is None:
        return
    for name, one in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if one is None:
            continue
        where = path.child(name, "requiredDuringSchedulingIgnoredDuringExecution")
        for position, term in enumerate(one.required_during_scheduling_ignored_during_execution):
            if term.label_selector is None:
                yield f"{where.index(position).child('labelSelector')}: {_NO_SELECTOR}"
        where = path.child(name, "preferredDuringSchedulingIgnoredDuringExecution")
        for position, weighted in enumerate(one.preferred_during_scheduling_ignored_during_execution):
            if weighted.pod_affinity_term.label_selector is None:
                yield f"{where.index(position).child('podAffinityTerm', 'labelSelector')}: {_NO_SELECTOR}"
