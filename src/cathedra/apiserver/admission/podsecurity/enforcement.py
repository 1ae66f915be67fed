"""The plugin PodSecurity: pods that violate the levels of their namespace are refused, audited or warned of.

Workloads whose template would make such pods are never refused, only audited and warned of. The answer to a namespace
that begins to enforce a level warns of the pods in it that violate the level.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import Namespace, Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden, internal_error, invalid
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.podsecurity import baseline, restricted
from cathedra.apiserver.admission.podsecurity.violations import Check, Violation, containers
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.routes import NAMESPACES, PODS
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import FeatureGates
from cathedra.remembering import IDENTITY, TEMPLATES, remembered
from cathedra.semantics.owners import controller_of

_IGNORED: Final = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
_MOST_PODS: Final = 3000


# Levels of the Pod Security Standards: the labels that choose them, the checks of each version, and their result.
#
# Checks run in order of their names, those of baseline first; a check of restricted may replace one of baseline. A
# version that is newer than the server counts as the server's own. Wrong labels are errors when a namespace is written.
# When a pod is written, enforcement is strict then, and audit and warnings are silent (api.PolicyToEvaluate of
# k8s.io/pod-security-admission).


class _Versioned(msgspec.Struct, frozen=True):
    """The forms of a check, each with the minor version since which it applies."""

    name: str
    forms: tuple[tuple[int, Check], ...]
    instead_of: str = ""

    def at(self, minor: int) -> Check | None:
        return next((check for since, check in reversed(self.forms) if since <= minor), None)


_KEEPALIVE: Final = tuple(f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout"))
_SYSCTLS_27: Final = ("net.ipv4.ip_local_reserved_ports",)
_SYSCTLS_29: Final = (*_SYSCTLS_27, *_KEEPALIVE, "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes")
_SYSCTLS_32: Final = (*_SYSCTLS_29, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
_SYSCTLS_37: Final = (*_SYSCTLS_32, "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat")

_BASELINE: Final = (
    _Versioned("appArmorProfile", ((0, baseline.app_armor),)),
    _Versioned("capabilities_baseline", ((0, baseline.capabilities),)),
    _Versioned("hostNamespaces", ((0, baseline.host_namespaces),)),
    _Versioned("hostPathVolumes", ((0, baseline.host_path_volumes),)),
    _Versioned("hostPorts", ((0, baseline.host_ports),)),
    _Versioned("hostProbesAndHostLifecycle", ((34, baseline.host_probes),)),
    _Versioned("privileged", ((0, baseline.privileged),)),
    _Versioned("procMount", ((0, baseline.proc_mount), (35, baseline.relaxed(baseline.proc_mount)))),
    _Versioned("seLinuxOptions", ((0, baseline.se_linux()), (31, baseline.se_linux("container_engine_t")))),
    _Versioned("seccompProfile_baseline", ((0, baseline.seccomp_annotations), (19, baseline.seccomp))),
    _Versioned(
        "sysctls",
        (
            (0, baseline.sysctls()),
            (27, baseline.sysctls(*_SYSCTLS_27)),
            (29, baseline.sysctls(*_SYSCTLS_29)),
            (32, baseline.sysctls(*_SYSCTLS_32)),
            (37, baseline.sysctls(*_SYSCTLS_37)),
        ),
    ),
    _Versioned("windowsHostProcess", ((0, baseline.windows_host_process),)),
)
_RESTRICTED: Final = (
    _Versioned(
        "allowPrivilegeEscalation",
        ((8, restricted.no_escalation), (25, restricted.not_on_windows(restricted.no_escalation))),
    ),
    _Versioned(
        "capabilities_restricted",
        ((22, restricted.capabilities), (25, restricted.not_on_windows(restricted.capabilities))),
        "capabilities_baseline",
    ),
    _Versioned("procMount_restricted", ((35, baseline.proc_mount),), "procMount"),
    _Versioned("restrictedVolumes", ((0, restricted.volumes),), "hostPathVolumes"),
    _Versioned("runAsNonRoot", ((0, restricted.run_as_non_root), (35, baseline.relaxed(restricted.run_as_non_root)))),
    _Versioned("runAsUser", ((23, restricted.run_as_user), (35, baseline.relaxed(restricted.run_as_user)))),
    _Versioned(
        "seccompProfile_restricted",
        ((19, restricted.seccomp), (25, restricted.not_on_windows(restricted.seccomp))),
        "seccompProfile_baseline",
    ),
)


def violations(asked: LevelVersion, newest: int, metadata: ObjectMeta, spec: PodSpec) -> list[Violation]:
    """Return the violations of a level by a pod; ``newest`` is the minor version of the server."""
    found = (check(metadata, spec) for check in _checks(asked.level, min(asked.minor, newest)))
    return [one for one in found if one is not None]


def in_detail(found: Iterable[Violation]) -> str:
    """Return the reasons with their details, as refusals have them."""
    return ", ".join(f"{one.reason} ({one.detail})" if one.detail else one.reason for one in found)


def in_short(found: Iterable[Violation]) -> str:
    """Return the reasons alone, as warnings of a namespace have them."""
    return ", ".join(one.reason for one in found)


@remembered("apiserver.admission.podsecurity.evaluation.checks", size=256)
def _checks(level: str, minor: int) -> Sequence[Check]:
    if level == PRIVILEGED:
        return ()
    strict = {one: check for one in _RESTRICTED if level == RESTRICTED and (check := one.at(minor)) is not None}
    replaced = {one.instead_of for one in strict}
    basic = [check for one in _BASELINE if one.name not in replaced and (check := one.at(minor)) is not None]
    return (*basic, *strict.values())


# --- levels of a namespace ------------------------------------------------------------------------------------------


PREFIX: Final = "pod-security.kubernetes.io/"
PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LATEST: Final = 1 << 31
"""The minor version that denotes the newest."""
_LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
_VERSION: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")


class LevelVersion(msgspec.Struct, frozen=True):
    """A level as it was in a version."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def is_stricter(self, other: LevelVersion) -> bool:
        """Return True if the level is stricter than another one."""
        return _LEVELS.index(self.level) > _LEVELS.index(other.level)


class Policy(msgspec.Struct, frozen=True):
    """The levels of a namespace, for each mode."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def is_privileged(self) -> bool:
        """True if it has nothing against any pod."""
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED


def policy_of(labels: Mapping[str, str]) -> tuple[Policy, ErrorList]:
    """Return the policy that labels choose, and the errors of the labels."""
    errors = ErrorList()
    enforce = _asked(labels, "enforce", RESTRICTED, errors)
    audit = _asked(labels, "audit", PRIVILEGED, errors)
    warn = _asked(labels, "warn", PRIVILEGED, errors)
    # Violations of the enforced level are also warnings, unless the labels set another level for warnings.
    if f"{PREFIX}warn" not in labels and labels.get(f"{PREFIX}enforce") in _LEVELS and enforce.is_stricter(warn):
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        warn = LevelVersion(enforce.level, minor)
    return Policy(enforce, audit, warn), errors


def _asked(labels: Mapping[str, str], mode: str, otherwise: str, errors: ErrorList) -> LevelVersion:
    """Level and version for one mode; ``otherwise`` is the level where the label names none."""
    level, minor = PRIVILEGED, LATEST
    name = f"{PREFIX}{mode}"
    if name in labels:
        level = labels[name]
        if level not in _LEVELS:
            errors.invalid(_path(name), level, f"must be one of {', '.join(_LEVELS)}")
            level = otherwise
    name = f"{PREFIX}{mode}-version"
    if name in labels and labels[name] != "latest":
        found = _VERSION.fullmatch(labels[name])
        if found is None:
            errors.invalid(_path(name), labels[name], 'must be "latest" or "v1.x"')
        else:
            minor = min(int(found[1][:10]), LATEST - 1)
    return LevelVersion(level, minor)


def _path(label: str) -> FieldPath:
    return FieldPath("metadata").child("labels").key(label)


_ENFORCED: Final = f"{PREFIX}enforce-policy"
_NOTHING_ASKED: Final = str(LevelVersion())
_WORKLOADS: Final = frozenset(
    {
        GroupResource("", "replicationcontrollers"),
        GroupResource("", "podtemplates"),
        *(GroupResource("apps", plural) for plural in ("replicasets", "deployments", "statefulsets", "daemonsets")),
        *(GroupResource("batch", plural) for plural in ("jobs", "cronjobs")),
    }
)


@remembered("pod security policies of namespaces", key=IDENTITY, size=TEMPLATES)
def _policy_in(namespace: Namespace) -> tuple[Policy, ErrorList, bool]:
    """Return the policy of a namespace, the errors of its labels, and True if the policy allows everything."""
    policy, errors = policy_of(namespace.metadata.labels)
    return policy, errors, policy.is_privileged and not errors


class PodSecurity(AdmissionPlugin):
    """Checks pods against the levels that the labels of their namespace choose."""

    kinds = frozenset({PODS, NAMESPACES, *_WORKLOADS})

    def __init__(self, registry: Registry, gates: FeatureGates) -> None:
        self._registry = registry
        self._newest = int(gates.release.partition(".")[2])

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle creations and updates, except on sub-resources that leave the security of a pod as it is."""
        if operation not in {"CREATE", "UPDATE"}:
            return False
        return not subresource or (definition.group_resource == PODS and subresource not in _IGNORED)

    def validate(self, request: AdmissionAttributes) -> None:
        """Refuse, audit and warn.

        Raises:
            StatusError: 403, the pod violates the level that its namespace enforces; 422, a namespace is written with
                wrong labels.
        """
        resource = request.call.definition.group_resource
        if resource == PODS:
            self._check_pod(request)
        elif resource == NAMESPACES:
            self._check_namespace(request)
        else:
            self._check_workload(request)

    def _check_namespace(self, request: AdmissionAttributes) -> None:
        policy, errors = policy_of(request.object.metadata.labels)
        if request.operation == "CREATE":
            if errors:
                raise invalid("", "Namespace", request.name, errors)
            return
        before, old_errors = policy_of(request.old_object.metadata.labels)
        # Wrong labels from before the upgrade of a cluster must not block every later change of the namespace.
        if errors and _texts(errors) != _texts(old_errors):
            raise invalid("", "Namespace", request.name, errors)
        enforce, old = policy.enforce, before.enforce
        if enforce == old or enforce.level == PRIVILEGED:
            return
        if enforce.minor == old.minor and not enforce.is_stricter(old):
            return
        request.warnings.extend(self._warnings_about_pods(request.name, enforce))

    def _warnings_about_pods(self, namespace: str, enforce: LevelVersion) -> list[str]:
        # Pods of one controller are alike, so one of each comes first: the limit may cut off the others.
        pods = _unlike_first(entry.object for entry in self._registry.table(PODS).select(Selection(namespace)))
        by_text: dict[str, list[str]] = {}
        for pod in pods[:_MOST_PODS]:
            found = violations(enforce, self._newest, pod.metadata, pod.spec)
            if found:
                by_text.setdefault(in_short(found), []).append(pod.metadata.name)
        warnings = []
        if len(pods) > _MOST_PODS:
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {_MOST_PODS} of {len(pods)} existing "
                "pods"
            )
        if by_text:
            warnings.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
            )
        return warnings + sorted(f"{_some(names)}: {text}" for text, names in by_text.items())

    def _check_pod(self, request: AdmissionAttributes) -> None:
        if not isinstance(request.object, Pod):
            return
        policy, errors, asks_nothing = self._policy(request)
        if asks_nothing:
            request.call.annotations[_ENFORCED] = _NOTHING_ASKED
            return
        pod: Pod = request.object
        # A pod that was there before the level must still get its status and its finalizers removed.
        if request.operation == "UPDATE" and not _is_significant(pod, request.old_object):
            return
        request.annotations[_ENFORCED] = str(policy.enforce)
        found = self._violations(policy.enforce, pod.metadata, pod.spec)
        self._note(request, policy, errors, pod.metadata, pod.spec)
        if found:
            why = f'violates PodSecurity "{policy.enforce}": {in_detail(found)}'
            raise forbidden(PODS, request.name, why)
        self._warn(request, policy, pod.metadata, pod.spec)

    def _check_workload(self, request: AdmissionAttributes) -> None:
        policy, errors, _ = self._policy(request)
        if policy.warn.level == policy.audit.level == PRIVILEGED and not errors:
            return
        template = _template(request.object)
        if template is None:
            return
        self._note(request, policy, errors, template.metadata, template.spec)
        self._warn(request, policy, template.metadata, template.spec)

    def _policy(self, request: AdmissionAttributes) -> tuple[Policy, ErrorList, bool]:
        namespace = self._registry.find(NAMESPACES, request.call.namespace)
        if namespace is None:
            raise internal_error(f'failed to lookup namespace "{request.namespace}"')
        return _policy_in(namespace)

    def _note(
        self, request: AdmissionAttributes, policy: Policy, errors: ErrorList, metadata: ObjectMeta, spec: PodSpec
    ) -> None:
        """Add an annotation to the audit event."""
        if errors:
            texts = _texts(errors)
            shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            request.annotations[f"{PREFIX}error"] = f"Failed to parse policy: {shown}"
        found = self._violations(policy.audit, metadata, spec)
        if found:
            request.annotations[f"{PREFIX}audit-violations"] = _would(policy.audit, found)

    def _warn(self, request: AdmissionAttributes, policy: Policy, metadata: ObjectMeta, spec: PodSpec) -> None:
        found = self._violations(policy.warn, metadata, spec)
        if found:
            request.warnings.append(_would(policy.warn, found))

    def _violations(self, asked: LevelVersion, metadata: ObjectMeta, spec: PodSpec) -> list[Violation]:
        return violations(asked, self._newest, metadata, spec)


def _would(asked: LevelVersion, found: list[Violation]) -> str:
    return f'would violate PodSecurity "{asked}": {in_detail(found)}'


def _texts(errors: ErrorList) -> list[str]:
    return [str(error) for error in errors]


def _template(workload: Any) -> Any:
    """Return the template of a workload's pods; None if it has none."""
    if not hasattr(workload, "spec"):
        return workload.template
    spec = workload.spec
    return spec.job_template.spec.template if hasattr(spec, "job_template") else spec.template


def _is_significant(pod: Pod, old: Pod) -> bool:
    """Return True if an update changes images or the number of containers, which may violate a level anew."""
    if len(pod.spec.containers) != len(old.spec.containers):
        return True
    if len(pod.spec.init_containers) != len(old.spec.init_containers):
        return True
    before = {container.name: container.image for container in containers(old.spec)}
    return any(before.get(container.name) != container.image for container in containers(pod.spec))


def _unlike_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods, the first of each controller before its others."""
    first: list[Pod] = []
    others: list[Pod] = []
    seen: set[str] = set()
    for pod in pods:
        owner = controller_of(pod)
        if owner is not None and owner.uid in seen:
            others.append(pod)
            continue
        first.append(pod)
        if owner is not None:
            seen.add(owner.uid)
    return first + others


def _some(names: list[str]) -> str:
    """Return the first of the names in alphabetical order, with the number of other pods, if any."""
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"
