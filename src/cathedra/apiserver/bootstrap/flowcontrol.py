"""The flow schemas and priority levels that every cluster has, all made again when they are missing.

Mandatory ones are kept as they are. A suggested one is kept while its annotation ``autoupdate-spec`` is true. If the
annotation is missing or invalid, it is set: to true if the spec was never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.flowcontrol_v1 import (
    ExemptPriorityLevelConfiguration,
    FlowDistinguisherMethod,
    FlowSchema,
    FlowSchemaSpec,
    GroupSubject,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationReference,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
    UserSubject,
)
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import AUTHENTICATED_GROUP, MASTERS_GROUP, UNAUTHENTICATED_GROUP
from cathedra.apiserver.bootstrap.keeping import KeptObject

_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_AUTOUPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
_ALL: Final = ("*",)
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The texts that Go's strconv.ParseBool accepts."""


def flow_control() -> Iterator[KeptObject]:
    """Return priority levels, then the schemas that name them."""
    for name, spec, mandatory in _levels():
        level = PriorityLevelConfiguration(metadata=_metadata(name), spec=spec)
        yield _kept("prioritylevelconfigurations", level, mandatory)
    for name, schema, mandatory in _schemas():
        yield _kept("flowschemas", FlowSchema(metadata=_metadata(name), spec=schema), mandatory)


def _metadata(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, annotations={_AUTOUPDATE: "true"})


def _kept(plural: str, obj: KubeObject, mandatory: bool) -> KeptObject:
    correct = _mandatory if mandatory else _suggested
    return KeptObject(GroupResource(_GROUP, plural), obj, (), correct)


def _mandatory(found: Any, wanted: Any) -> Any:
    return _annotated(replace(found, spec=wanted.spec), kept=True)


def _suggested(found: Any, wanted: Any) -> Any:
    said = _BOOLS.get(found.metadata.annotations.get(_AUTOUPDATE, ""))
    kept = found.metadata.generation == 1 if said is None else said
    return _annotated(replace(found, spec=wanted.spec) if kept else found, kept=kept)


def _annotated(obj: Any, *, kept: bool) -> Any:
    if _BOOLS.get(obj.metadata.annotations.get(_AUTOUPDATE, "")) is kept:
        return obj
    annotations = {**obj.metadata.annotations, _AUTOUPDATE: "true" if kept else "false"}
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations))


# Priority levels.


def _levels() -> Iterator[tuple[str, PriorityLevelConfigurationSpec, bool]]:
    exempt = ExemptPriorityLevelConfiguration(nominal_concurrency_shares=0, lendable_percent=0)
    yield "exempt", PriorityLevelConfigurationSpec(type="Exempt", exempt=exempt), True
    yield "catch-all", _limited(5, 0), True
    yield "system", _limited(30, 33, queues=64, hand=6), False
    yield "node-high", _limited(40, 25, queues=64, hand=6), False
    yield "leader-election", _limited(10, 0, queues=16, hand=4), False
    yield "workload-high", _limited(40, 50, queues=128, hand=6), False
    yield "workload-low", _limited(100, 90, queues=128, hand=6), False
    yield "global-default", _limited(20, 50, queues=128, hand=6), False


def _limited(shares: int, lent: int, *, queues: int = 0, hand: int = 0) -> PriorityLevelConfigurationSpec:
    """Requests beyond the share are refused, or wait in queues of 50."""
    response = LimitResponse(type="Reject")
    if queues:
        queuing = QueuingConfiguration(queues=queues, hand_size=hand, queue_length_limit=50)
        response = LimitResponse(type="Queue", queuing=queuing)
    limited = LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=shares, lendable_percent=lent, limit_response=response
    )
    return PriorityLevelConfigurationSpec(type="Limited", limited=limited)


# Flow schemas.


def _schemas() -> Iterator[tuple[str, FlowSchemaSpec, bool]]:
    everyone = _groups(UNAUTHENTICATED_GROUP, AUTHENTICATED_GROUP)
    nodes = _groups("system:nodes")
    anything = ((_resources(),), (NonResourcePolicyRule(verbs=_ALL, non_resource_urls=_ALL),))
    leases = ("get", "create", "update")
    yield "exempt", _schema("exempt", 1, "", _groups(MASTERS_GROUP), *anything), True
    yield "catch-all", _schema("catch-all", 10_000, "ByUser", everyone, *anything), True
    yield "system-nodes", _schema("system", 500, "ByUser", nodes, *anything), False
    node_rules = (
        _resources(groups=("",), resources=("nodes", "nodes/status")),
        _resources(groups=("coordination.k8s.io",), resources=("leases",), cluster=False),
    )
    yield "system-node-high", _schema("node-high", 400, "ByUser", nodes, node_rules), False
    probes = NonResourcePolicyRule(verbs=("get",), non_resource_urls=("/healthz", "/readyz", "/livez"))
    yield "probes", _schema("exempt", 2, "", everyone, (), (probes,)), False
    electing = _resources(
        leases, groups=("coordination.k8s.io",), resources=("leases",), namespaces=("kube-system",), cluster=False
    )
    leaders = (*_users("system:kube-controller-manager", "system:kube-scheduler"), *_accounts("*"))
    yield "system-leader-election", _schema("leader-election", 100, "ByUser", leaders, (electing,)), False
    anywhere = _resources(leases, groups=("coordination.k8s.io",), resources=("leases",), cluster=False)
    yield "workload-leader-election", _schema("leader-election", 200, "ByUser", _accounts("*"), (anywhere,)), False
    endpoints = _resources(leases, groups=("",), resources=("endpoints",), cluster=False)
    mirrors = _accounts("endpoint-controller", "endpointslicemirroring-controller")
    callers = (*_users("system:kube-controller-manager"), *mirrors)
    yield "endpoint-controller", _schema("workload-high", 150, "ByUser", callers, (endpoints,)), False
    for part in ("kube-controller-manager", "kube-scheduler"):
        yield part, _schema("workload-high", 800, "ByNamespace", _users(f"system:{part}"), *anything), False
    own = _schema("workload-high", 900, "ByNamespace", _accounts("*"), *anything)
    yield "kube-system-service-accounts", own, False
    accounts = _schema("workload-low", 9_000, "ByUser", _groups("system:serviceaccounts"), *anything)
    yield "service-accounts", accounts, False
    yield "global-default", _schema("global-default", 9_900, "ByUser", everyone, *anything), False


def _schema(
    level: str,
    precedence: int,
    distinguisher: str,
    subjects: tuple[Subject, ...],
    resource_rules: tuple[ResourcePolicyRule, ...],
    other_rules: tuple[NonResourcePolicyRule, ...] = (),
) -> FlowSchemaSpec:
    rules = PolicyRulesWithSubjects(subjects=subjects, resource_rules=resource_rules, non_resource_rules=other_rules)
    return FlowSchemaSpec(
        priority_level_configuration=PriorityLevelConfigurationReference(name=level),
        matching_precedence=precedence,
        distinguisher_method=FlowDistinguisherMethod(type=distinguisher) if distinguisher else None,
        rules=(rules,),
    )


def _resources(
    verbs: tuple[str, ...] = _ALL,
    *,
    groups: tuple[str, ...] = _ALL,
    resources: tuple[str, ...] = _ALL,
    namespaces: tuple[str, ...] = _ALL,
    cluster: bool = True,
) -> ResourcePolicyRule:
    return ResourcePolicyRule(
        verbs=verbs, api_groups=groups, resources=resources, namespaces=namespaces, cluster_scope=cluster
    )


def _groups(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject(kind="Group", group=GroupSubject(name=name)) for name in names)


def _users(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject(kind="User", user=UserSubject(name=name)) for name in names)


def _accounts(*names: str) -> tuple[Subject, ...]:
    """Service accounts of kube-system; ``*`` is all of them."""
    return tuple(
        Subject(kind="ServiceAccount", service_account=ServiceAccountSubject(namespace="kube-system", name=name))
        for name in names
    )
