"""Rules of a pod's spec, with DNS configuration, tolerations, scheduling gates, affinity and spread.

Workloads apply the same rules to their templates.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import not_
from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldError, FieldPath
from cathedra.api.formats import check
from cathedra.api.goquote import go_quote
from cathedra.kinds.core.pods.equivalence import spec_key
from cathedra.kinds.core.pods.validation._containers import (
    PodReferences,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from cathedra.kinds.core.pods.validation._resources import (
    claim_names,
    validate_mirror,
    validate_pod_claims,
    validate_pod_resources,
)
from cathedra.kinds.core.pods.validation._security import validate_pod_security, validate_system
from cathedra.kinds.core.pods.validation._volumes import validate_volumes
from cathedra.kinds.metadata import validate_annotations, validate_labels
from cathedra.kinds.nodeselectors import validate_node_selector, validate_node_selector_term
from cathedra.remembering import TEMPLATES, remembered
from cathedra.semantics.pods import is_mirror

SPEC: Final = FieldPath("spec")
_CLAIMS: Final = "spec.resourceClaims"
"""Of a static pod it matters that there are claims, not what they are."""
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
_MAX_INT32: Final = 2**31 - 1
_LONGEST_SEARCH: Final = 253


def validate_pod(pod: core_v1.Pod) -> ErrorList:
    """Return the errors of a new pod."""
    errors = validate_any_pod(pod)
    if pod.spec.ephemeral_containers:
        errors.forbidden(SPEC.child("ephemeralContainers"), "cannot be set on create")
    # Only new pods are checked. Binding refuses a gated pod by itself, and stored ones must stay updatable.
    if pod.spec.node_name and pod.spec.scheduling_gates:
        errors.forbidden(SPEC.child("nodeName"), "cannot be set until all schedulingGates have been cleared")
    return errors


def validate_any_pod(pod: core_v1.Pod) -> ErrorList:
    """Return the errors of a pod, new or changed."""
    if not pod.metadata.annotations:  # without them it is no mirror pod either
        return ErrorList(_spec_errors(pod.spec))
    errors = ErrorList()
    if is_mirror(pod):
        validate_mirror(errors, pod)
    _annotations(errors, FieldPath("metadata").child("annotations"), pod.metadata.annotations, pod.spec)
    errors.extend(_spec_errors(pod.spec))
    if is_mirror(pod):
        # validate_mirror has reported the claims already; their own errors would repeat that.
        return ErrorList(error for error in errors if not str(error.field).startswith(_CLAIMS))
    return errors


# Pods of one workload have equal specs. Only specs without errors are kept: errors hold the values of one pod.
@remembered("specs of pods without errors", key=spec_key, size=TEMPLATES, keep=not_)
def _spec_errors(spec: core_v1.PodSpec) -> tuple[FieldError, ...]:
    errors = ErrorList()
    _validate_spec(errors, SPEC, spec)
    _validate_images(errors, spec)
    return tuple(errors)


def _validate_images(errors: ErrorList, spec: core_v1.PodSpec) -> None:
    for name, group in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for position, container in enumerate(group):
            # Only pods: templates with such images were stored before the rule existed.
            if container.image != container.image.strip():
                where = SPEC.child(name).index(position).child("image")
                errors.invalid(where, container.image, "must not have leading or trailing whitespace")


_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROFILES: Final = frozenset({"", "runtime/default", "unconfined"})
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def _annotations(errors: ErrorList, path: FieldPath, annotations: Mapping[str, str], spec: core_v1.PodSpec) -> None:
    """Check the annotations that have a meaning for a pod."""
    cost = annotations.get(_COST)
    if cost is not None and not _is_cost(cost):
        errors.invalid(path.key(_COST), cost, "must be a 32bit integer")
    for key, profile in sorted(annotations.items()):
        if not key.startswith(_APPARMOR):
            continue
        name = key.removeprefix(_APPARMOR)
        # The annotation is the older form of securityContext.appArmorProfile. With a mistyped container name it would
        # leave that container unconfined.
        containers = {container.name for container in (*spec.containers, *spec.init_containers)}
        if name not in containers | {container.name for container in spec.ephemeral_containers}:
            errors.invalid(path.key(key), name, "container not found")
        if profile not in _PROFILES and not profile.startswith("localhost/"):
            errors.invalid(path.key(key), profile, f"invalid AppArmor profile name: {go_quote(profile)}")


def _is_cost(text: str) -> bool:
    """Return True for an integer of 32 bits as Kubernetes writes them: without plus sign and leading zeros."""
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,9}", text, re.ASCII):
        return False
    return -(2**31) <= int(text) < 2**31


def validate_pod_template(template: core_v1.PodTemplateSpec, path: FieldPath) -> ErrorList:
    """Return the errors of the pods that a template would make."""
    errors = ErrorList()
    validate_labels(errors, path.child("labels"), template.metadata.labels)
    validate_annotations(errors, path.child("annotations"), template.metadata.annotations)
    _annotations(errors, path.child("annotations"), template.metadata.annotations, template.spec)
    _validate_spec(errors, path.child("spec"), template.spec)
    if template.spec.ephemeral_containers:
        errors.forbidden(path.child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
    return errors


def _validate_spec(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    volumes = validate_volumes(errors, path.child("volumes"), spec.volumes)
    validate_pod_claims(errors, path.child("resourceClaims"), spec.resource_claims)
    own_users = spec.host_users is False
    grace = spec.termination_grace_period_seconds
    claimed = (one.name for one in spec.volumes if one.persistent_volume_claim is not None or one.ephemeral is not None)
    around = PodReferences(volumes, claim_names(spec), own_users, grace, spec.restart_policy, frozenset(claimed))
    validate_containers(errors, path.child("containers"), spec.containers, around)
    validate_init_containers(errors, path.child("initContainers"), spec, around)
    validate_ephemeral_containers(errors, path.child("ephemeralContainers"), spec, around)
    validate_pod_resources(errors, path.child("resources"), spec, around.claims)
    if spec.host_network:
        _host_ports(errors, path.child("containers"), spec.containers)
    _policy(errors, path.child("restartPolicy"), spec.restart_policy, _RESTART_POLICIES)
    _policy(errors, path.child("dnsPolicy"), spec.dns_policy, _DNS_POLICIES)
    validate_labels(errors, path.child("nodeSelector"), spec.node_selector)
    validate_pod_security(errors, path.child("securityContext"), spec)
    validate_affinity(errors, path.child("affinity"), spec.affinity)
    validate_dns_config(errors, path.child("dnsConfig"), spec)
    for position, gate in enumerate(spec.readiness_gates):
        where = path.child("readinessGates").index(position).child("conditionType")
        check(errors, where, gate.condition_type, formats.label_key)
    validate_gates(errors, path.child("schedulingGates"), spec.scheduling_gates)
    validate_spread(errors, path.child("topologySpreadConstraints"), spec.topology_spread_constraints)
    # The order of these calls is the order of the errors in the Status, which recorded answers of Kubernetes hold.
    _names(errors, path, spec)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = f"must be between 1 and {_MAX_INT32}, inclusive"
        errors.invalid(path.child("activeDeadlineSeconds"), deadline, text)
    validate_tolerations(errors, path.child("tolerations"), spec.tolerations)
    _host_aliases(errors, path.child("hostAliases"), spec.host_aliases)
    if spec.preemption_policy is not None:
        _policy(errors, path.child("preemptionPolicy"), spec.preemption_policy, _PREEMPTION_POLICIES)
    validate_system(errors, path, spec)
    if spec.scheduling_group is not None:
        _scheduling_group(errors, path.child("schedulingGroup"), spec.scheduling_group)
    if spec.workload_ref is not None:
        _workload_reference(errors, path.child("workloadRef"), spec.workload_ref)


def _names(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    for name, value, form in (
        ("serviceAccountName", spec.service_account_name, formats.dns_subdomain),
        ("nodeName", spec.node_name, formats.dns_subdomain),
        ("hostname", spec.hostname, formats.dns_label),
        ("subdomain", spec.subdomain, formats.dns_label),
        ("priorityClassName", spec.priority_class_name, formats.dns_subdomain),
        ("runtimeClassName", spec.runtime_class_name, formats.dns_subdomain),
    ):
        if value:
            check(errors, path.child(name), value, form)


def _host_ports(errors: ErrorList, path: FieldPath, containers: Sequence[core_v1.Container]) -> None:
    """Refuse a port on the network of the host that has another number there.

    0 in a template is replaced when its pods are created.
    """
    for position, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if port.host_port not in (0, port.container_port):
                where = path.index(position).child("ports").index(number).child("hostPort")
                errors.invalid(where, port.host_port, "must match `containerPort` when `hostNetwork` is true")


def _host_aliases(errors: ErrorList, path: FieldPath, aliases: Sequence[core_v1.HostAlias]) -> None:
    for position, alias in enumerate(aliases):
        where = path.index(position)
        if not is_address(alias.ip):
            errors.invalid(where.child("ip"), alias.ip, NO_ADDRESS)
        for number, name in enumerate(alias.hostnames):
            check(errors, where.child("hostnames").index(number), name, formats.dns_subdomain)


def _scheduling_group(errors: ErrorList, path: FieldPath, group: core_v1.PodSchedulingGroup) -> None:
    if group.pod_group_name is None:
        errors.invalid(path, "", "must specify one of: `podGroupName`")
    else:
        check(errors, path.child("podGroupName"), group.pod_group_name, formats.dns_subdomain)


def _workload_reference(errors: ErrorList, path: FieldPath, reference: core_v1.WorkloadReference) -> None:
    check(errors, path.child("name"), reference.name, formats.dns_subdomain)
    check(errors, path.child("podGroup"), reference.pod_group, formats.dns_label)
    if reference.pod_group_replica_key:
        check(errors, path.child("podGroupReplicaKey"), reference.pod_group_replica_key, formats.dns_label)


def _policy(errors: ErrorList, path: FieldPath, value: str, known: tuple[str, ...]) -> None:
    if not value:
        errors.required(path)
    elif value not in known:
        errors.not_among(path, value, known)


_NAMESERVERS: Final = 3
_SEARCHES: Final = 32
_SEARCH_LETTERS: Final = 2048
NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_dns_config(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    """Require few servers with addresses, search paths that are domains, options with names; policy None needs a
    server."""
    config = spec.dns_config
    if spec.dns_policy == "None":
        # The two errors above end validation of the field, as they do in Kubernetes.
        if config is None:
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.nameservers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.required(path.child("nameservers"), text)
            return
    if config is None:
        return
    servers, searches = list(config.nameservers), list(config.searches)
    if len(servers) > _NAMESERVERS:
        errors.invalid(path.child("nameservers"), servers, f"must not have more than {_NAMESERVERS} nameservers")
    for position, server in enumerate(servers):
        if not is_address(server):
            errors.invalid(path.child("nameservers").index(position), server, NO_ADDRESS)
    where = path.child("searches")
    if len(searches) > _SEARCHES:
        errors.invalid(where, searches, f"must not have more than {_SEARCHES} search paths")
    if len(" ".join(searches)) > _SEARCH_LETTERS:
        # The resolver reads the list as one line of this length.
        text = f"must not have more than {_SEARCH_LETTERS} characters (including spaces) in the search list"
        errors.invalid(where, searches, text)
    for position, search in enumerate(searches):
        if search != ".":
            # One trailing dot marks a fully qualified domain. The root domain alone is the search path ".".
            check(errors, where.index(position), search.removesuffix("."), _search)
    for position, option in enumerate(config.options):
        if not option.name:
            errors.required(path.child("options").index(position), "must not be empty")


_SEARCH: Final = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*", re.ASCII)


def _search(value: str) -> list[str]:
    """Return the problems of a search path. It may have underscores, as names of services of SRV records have."""
    problems = ["must be no more than 253 bytes"] if len(value.encode()) > _LONGEST_SEARCH else []
    if not _SEARCH.fullmatch(value):
        problems.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and "
            "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            f"'{_SEARCH.pattern}')"
        )
    return problems


def is_address(value: str) -> bool:
    """Return True for an address of either family."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    # Python accepts zones of IPv6 addresses, and Kubernetes does not.
    return "%" not in value


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHEN: Final = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION: Final = ("Honor", "Ignore")


def validate_tolerations(errors: ErrorList, path: FieldPath, tolerations: Sequence[core_v1.Toleration]) -> None:
    """Require that key, operator, value and effect agree with one another."""
    for position, toleration in enumerate(tolerations):
        where = path.index(position)
        if toleration.key:
            check(errors, where.child("key"), toleration.key, formats.label_key)
        elif toleration.operator != "Exists":
            errors.invalid(
                where.child("operator"),
                toleration.operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        # Only NoExecute evicts running pods; a delay has no meaning for the effects that keep pods away.
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.invalid(where.child("effect"), toleration.effect, text)
        _operator(errors, where.child("operator"), toleration)
        if toleration.effect and toleration.effect not in _EFFECTS:
            errors.not_among(where.child("effect"), toleration.effect, _EFFECTS)


def _operator(errors: ErrorList, path: FieldPath, toleration: core_v1.Toleration) -> None:
    if toleration.operator in {"", "Equal"}:
        problems = formats.label_value(toleration.value)
        if problems:
            errors.invalid(path, toleration.value, ";".join(problems))
    elif toleration.operator == "Exists":
        if toleration.value:
            errors.invalid(path, toleration, "value must be empty when `operator` is 'Exists'")
    else:
        errors.not_supported(path, toleration.operator, ("Equal", "Exists"))


def validate_gates(errors: ErrorList, path: FieldPath, gates: Sequence[core_v1.PodSchedulingGate]) -> None:
    """Require that gates have names of their own."""
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        where = path.index(position)
        check(errors, where, gate.name, formats.qualified_name)
        if gate.name in seen:
            errors.duplicate(where, gate.name)
        seen.add(gate.name)


def validate_affinity(errors: ErrorList, path: FieldPath, affinity: core_v1.Affinity | None) -> None:
    """Require that node selectors are well-formed, weights lie between 1 and 100."""
    if affinity is None:
        return
    node = affinity.node_affinity
    if node is not None:
        where = path.child("nodeAffinity")
        required = node.required_during_scheduling_ignored_during_execution
        if required is not None:
            validate_node_selector(errors, where.child("requiredDuringSchedulingIgnoredDuringExecution"), required)
        preferred = node.preferred_during_scheduling_ignored_during_execution
        for position, weighted_term in enumerate(preferred):
            _weight(errors, where, position, weighted_term.weight)
            place = where.child(_PREFERRED).index(position).child("preference")
            validate_node_selector_term(errors, place, weighted_term.preference)
    for name, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is None:
            continue
        where = path.child(name)
        for position, term in enumerate(pods.required_during_scheduling_ignored_during_execution):
            place = where.child("requiredDuringSchedulingIgnoredDuringExecution").index(position)
            _topology(errors, place, term)
        weighted = pods.preferred_during_scheduling_ignored_during_execution
        for position, one in enumerate(weighted):
            _weight(errors, where, position, one.weight)
            place = where.child(_PREFERRED).index(position)
            _topology(errors, place.child("podAffinityTerm"), one.pod_affinity_term)


_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _weight(errors: ErrorList, path: FieldPath, position: int, weight: int) -> None:
    if not 1 <= weight <= 100:
        where = path.child(_PREFERRED).index(position).child("weight")
        errors.invalid(where, weight, "must be in the range 1-100")


def _topology(errors: ErrorList, path: FieldPath, term: core_v1.PodAffinityTerm) -> None:
    if not term.topology_key:
        errors.required(path.child("topologyKey"), "can not be empty")
    else:
        check(errors, path.child("topologyKey"), term.topology_key, formats.label_key)


def validate_spread(
    errors: ErrorList, path: FieldPath, constraints: Sequence[core_v1.TopologySpreadConstraint]
) -> None:
    """Require that skews are positive, every key and manner of a constraint occurs once."""
    following = Counter((one.topology_key, one.when_unsatisfiable) for one in constraints)
    for position, constraint in enumerate(constraints):
        where = path.index(position)
        manner = constraint.when_unsatisfiable
        if constraint.max_skew <= 0:
            errors.invalid(where.child("maxSkew"), constraint.max_skew, _NOT_POSITIVE)
        if not constraint.topology_key:
            errors.required(where.child("topologyKey"), "can not be empty")
        if manner not in _WHEN:
            errors.not_supported(where.child("whenUnsatisfiable"), manner, _WHEN)
        # Two constraints on one key and of one kind would contradict each other's skew; hard and soft ones may coexist.
        # Kubernetes reports the earlier one.
        pair = (constraint.topology_key, manner)
        following[pair] -= 1
        if following[pair]:
            errors.duplicate(where.child("{topologyKey, whenUnsatisfiable}"), f"{{{pair[0]}, {pair[1]}}}")
        if constraint.min_domains is not None:
            _min_domains(errors, where.child("minDomains"), constraint.min_domains, manner)
        for name, policy in (
            ("nodeAffinityPolicy", constraint.node_affinity_policy),
            ("nodeTaintsPolicy", constraint.node_taints_policy),
        ):
            if policy is not None and policy not in _INCLUSION:
                errors.not_supported(where.child(name), policy, _INCLUSION)


_NOT_POSITIVE: Final = "must be greater than zero"


def _min_domains(errors: ErrorList, path: FieldPath, number: int, manner: str) -> None:
    if number <= 0:
        errors.invalid(path, number, _NOT_POSITIVE)
    if manner != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {manner}"
        errors.invalid(path, number, text)
