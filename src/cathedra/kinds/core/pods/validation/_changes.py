"""Rules of updates to a pod (docs/spec/api.md §6.1; docs/spec/apimachinery.md §12, §16.2).

The main resource permits changes of images and deadlines, additional tolerations and the removal of scheduling gates;
``ephemeralcontainers`` permits new ephemeral containers; `_resizing` has the rules of ``resize``.

A refusal shows a unified diff of Kubernetes' internal form, which has other names, another order and every field. The
tables below have these differences from the wire form; everything else is derived from the wire form.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath, go_form, go_json
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.struct import json_names, replace
from cathedra.kinds.core.pods.validation._spec import SPEC, validate_any_pod, validate_tolerations
from cathedra.releases.fields import is_known
from cathedra.remembering import remembered
from cathedra.semantics.pods import is_mirror

_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MAX_INT32: Final = 2**31 - 1


def validate_pod_update(new: core_v1.Pod, old: core_v1.Pod, release: str) -> ErrorList:
    """Return the errors of a change through the main resource; their texts show the fields of ``release``."""
    errors = validate_any_pod(new)
    for name, after, before in (
        ("containers", new.spec.containers, old.spec.containers),
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
    ):
        if len(after) != len(before):
            errors.forbidden(SPEC.child(name), "pod updates may not add or remove containers")
            # Without equal lengths the containers cannot be paired, so nothing else is compared.
            return errors
    if not _deadline(errors, new.spec, old.spec):
        return errors
    _tolerations(errors, new.spec.tolerations, old.spec.tolerations)
    _gates(errors, new.spec.scheduling_gates, old.spec.scheduling_gates)
    # What may change is put back first and the rest compared as a whole. A field that a later release adds is therefore
    # immutable without a line here.
    kept = _with_stored(new.spec, old.spec)
    if old.spec.scheduling_gates:
        kept = _while_gated(errors, kept, old.spec)
    if kept != old.spec:
        difference = spec_difference(old.spec, kept, release)
        errors.forbidden(SPEC, f"pod updates may not change fields other than {_UPDATABLE}\n{difference}")
    return errors


def _deadline(errors: ErrorList, new: core_v1.PodSpec, old: core_v1.PodSpec) -> bool:
    """Return True if the rest is worth looking at: deadlines only come nearer."""
    path = SPEC.child("activeDeadlineSeconds")
    after, before = new.active_deadline_seconds, old.active_deadline_seconds
    if after is None:
        if before is not None:
            errors.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= after <= _MAX_INT32:
        errors.invalid(path, after, f"must be between 0 and {_MAX_INT32}, inclusive")
        return False
    if before is not None and before < after:
        errors.invalid(path, after, "must be less than or equal to previous value")
        return False
    return True


def _tolerations(errors: ErrorList, new: Sequence[core_v1.Toleration], old: Sequence[core_v1.Toleration]) -> None:
    path = SPEC.child("tolerations")
    # Hashed without the seconds, which are the only part that may change. A pairwise comparison would take quadratic
    # time for a pod with thousands of tolerations.
    kept = {replace(other, toleration_seconds=None) for other in new}
    for toleration in old:
        if replace(toleration, toleration_seconds=None) not in kept:
            # One error for all of them, and the new ones are not validated: the whole list is refused.
            errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds")
            return
    validate_tolerations(errors, path, new)


def _gates(
    errors: ErrorList, new: Sequence[core_v1.PodSchedulingGate], old: Sequence[core_v1.PodSchedulingGate]
) -> None:
    known = {gate.name for gate in old}
    for position, gate in enumerate(new):
        if gate.name not in known:
            where = SPEC.child("schedulingGates").index(position).child("name")
            errors.forbidden(where, f"only deletion is allowed, but found new scheduling gate '{gate.name}'")


def _with_stored(new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """Return the new spec with the stored values of the fields that may change."""
    changes: dict[str, Any] = {
        "containers": _with_images(new.containers, old.containers),
        "init_containers": _with_images(new.init_containers, old.init_containers),
        "active_deadline_seconds": old.active_deadline_seconds,
        "scheduling_gates": old.scheduling_gates,
        "tolerations": old.tolerations,
    }
    before = old.termination_grace_period_seconds
    # Negative periods were stored before validation refused them. Setting 1 is the only way to get rid of one; the node
    # treats both as 1.
    if before is not None and before < 0 and new.termination_grace_period_seconds == 1:
        changes["termination_grace_period_seconds"] = before
    return replace(new, **changes)


def _with_images(new: Sequence[core_v1.Container], old: Sequence[core_v1.Container]) -> tuple[core_v1.Container, ...]:
    return tuple(replace(one, image=other.image) for one, other in zip(new, old, strict=True))


def _while_gated(errors: ErrorList, new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """Validate changes that narrow the nodes of a gated pod, and return the spec with those put back."""
    selector = new.node_selector
    if selector != old.node_selector:
        if any(selector.get(key) != value for key, value in old.node_selector.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.invalid(SPEC.child("nodeSelector"), selector, text)
        new = replace(new, node_selector=old.node_selector)
    before = _required(old)
    # The author's requirements of the node must still hold when the gates are removed, so terms may only gain
    # requirements. Another term would be an alternative, and permit more nodes than before.
    if before is None or _narrows(_required(new), before):
        affinity = new.affinity
        stored = old.affinity.node_affinity if old.affinity is not None else None
        if affinity is not None:
            kept = replace(affinity, node_affinity=stored)
            new = replace(new, affinity=None if kept == core_v1.Affinity() and old.affinity is None else kept)
    return new


def _required(spec: core_v1.PodSpec) -> core_v1.NodeSelector | None:
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return None
    return spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution


def _narrows(new: core_v1.NodeSelector | None, old: core_v1.NodeSelector) -> bool:
    """Return True if every term keeps its requirements, in place and order, and at most gains some."""
    if new is None or len(new.node_selector_terms) != len(old.node_selector_terms):
        return False
    return all(
        _begins_with(after.match_expressions, before.match_expressions)
        and _begins_with(after.match_fields, before.match_fields)
        for after, before in zip(new.node_selector_terms, old.node_selector_terms, strict=True)
    )


def _begins_with(items: Sequence[Any], beginning: Sequence[Any]) -> bool:
    return list(items[: len(beginning)]) == list(beginning)


def validate_ephemeral_containers_update(new: core_v1.Pod, old: core_v1.Pod, release: str) -> ErrorList:
    """Return the errors of the ephemeral containers of a change; those that are there stay as they are."""
    errors = validate_any_pod(new)
    if is_mirror(old):
        errors.forbidden(FieldPath("[]"), "static pods do not support ephemeral containers")
        return errors
    path = SPEC.child("ephemeralContainers")
    after = {container.name: container for container in new.spec.ephemeral_containers}
    for container in old.spec.ephemeral_containers:
        found = after.get(container.name)
        if found is None:
            errors.forbidden(path, f'existing ephemeral containers "{container.name}" may not be removed\n')
        elif found != container:
            before, after_change = (_lines(_plain(one, release)) for one in (container, found))
            shown = _difference(before, after_change)
            errors.forbidden(path, f'existing ephemeral containers "{container.name}" may not be changed\n{shown}')
    return errors


_POD: Final = (
    "volumes",
    "initContainers",
    "containers",
    "ephemeralContainers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
    "automountServiceAccountToken",
    "nodeName",
    "securityContext",
    "imagePullSecrets",
    "hostname",
    "subdomain",
    "setHostnameAsFQDN",
    "affinity",
    "schedulerName",
    "tolerations",
    "hostAliases",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "dnsConfig",
    "readinessGates",
    "runtimeClassName",
    "overhead",
    "enableServiceLinks",
    "topologySpreadConstraints",
    "os",
    "schedulingGates",
    "resourceClaims",
    "resources",
    "hostnameOverride",
    "workloadRef",
    "schedulingGroup",
)
_CONTAINER: Final = (
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "ports",
    "envFrom",
    "env",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "volumeMounts",
    "volumeDevices",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
)
_OF_THE_HOST: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
"""Fields of the spec that the internal form has in its security context."""
_SECURITY: Final = (
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "seccompProfile",
    "appArmorProfile",
    "seLinuxChangePolicy",
)
_ORDER: Final[Mapping[type, tuple[str, ...]]] = {
    core_v1.Container: _CONTAINER,
    core_v1.EphemeralContainer: (*_CONTAINER, "targetContainerName"),
    core_v1.Volume: ("name",),
}
_WORDS: Final = {
    "dnsPolicy": "DNSPolicy",
    "dnsConfig": "DNSConfig",
    "os": "OS",
    "tty": "TTY",
    "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy",
    "seLinuxOptions": "SELinuxOptions",
    "seLinuxChangePolicy": "SELinuxChangePolicy",
    "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders",
    "tcpSocket": "TCPSocket",
    "grpc": "GRPC",
    "ip": "IP",
    "nfs": "NFS",
    "csi": "CSI",
}


_AROUND: Final = 3
"""Lines that are shown around a change."""
_COMPARED: Final = 1_000
"""Lines of a spec up to which all are compared. A pod with ten containers has some five hundred."""
_NEAR: Final = 300
"""Lines that are compared of longer specs."""


def spec_difference(old: core_v1.PodSpec, new: core_v1.PodSpec, release: str) -> str:
    """Return the unified diff with the fields of ``release``, three lines around each change; "" where nothing differs.

    To compare texts line by line takes time that grows with the square of their length. Of specs with more than
    `_COMPARED` lines only those from the first change on are compared, `_NEAR` of each.
    """
    before, after = (_lines(spec_form(spec, release)) for spec in (old, new))
    if max(len(before), len(after)) <= _COMPARED:
        return _difference(before, after)
    pairs = zip(before, after, strict=False)
    shorter = min(len(before), len(after))
    # Equal lines at the beginning are skipped in linear time. They are most of a long spec, and difflib is quadratic.
    first = next((place for place, (one, other) in enumerate(pairs) if one != other), shorter)
    begin = max(first - _AROUND, 0)
    shown = _difference(before[begin : begin + _NEAR], after[begin : begin + _NEAR], skipped=begin)
    return f"{shown}… (cut)\n"


def _difference(before: Sequence[str], after: Sequence[str], *, skipped: int = 0) -> str:
    """Return the unified diff of two texts that follow ``skipped`` equal lines."""
    lines = [line for line in difflib.unified_diff(before, after, n=_AROUND) if line not in {"--- \n", "+++ \n"}]
    if skipped:
        lines = [_shifted(line, skipped) if line.startswith("@@ ") else line for line in lines]
    return "".join(lines)


def _shifted(heading: str, skipped: int) -> str:
    """Return the heading of a change, ``@@ -1,7 +1,7 @@``, with its two line numbers increased by ``skipped``."""
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + skipped}", heading)


def _lines(form: JSONObject) -> list[str]:
    # Not splitlines: that also ends lines at characters that JSON leaves in texts.
    return [f"{line}\n" for line in go_json(form, indent=1).split("\n")]


def spec_form(spec: core_v1.PodSpec, release: str) -> JSONObject:
    """Return a spec in Kubernetes' internal form, with the fields of ``release``."""
    values = dict(_named(spec))
    found = {_word(name): _plain(values[name], release) for name in _POD if is_known("PodSpec", name, release)}
    security = spec.security_context
    if security is not None:
        inner = dict(_named(security))
        found["SecurityContext"] = {
            **{_word(name): _plain(values[name], release) for name in _OF_THE_HOST},
            **{_word(name): _plain(inner[name], release) for name in _SECURITY},
        }
    return found


def _named(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    for attribute, name in json_names(type(value)).items():
        yield name, getattr(value, attribute)


def _plain(value: Any, release: str) -> Any:
    if isinstance(value, msgspec.Struct) and type(value).__module__ == core_v1.__name__:
        fields = [(getattr(value, one.attribute), one) for one in _shown(type(value), release)]
        # An empty field that the release does not know is left out. A filled one is shown: it is the difference.
        return {one.word: _plain(item, release) for item, one in fields if item or one.known}
    if isinstance(value, tuple):
        # Kubernetes prints empty lists as null: its stored objects are protobuf, which does not record them.
        return [_plain(item, release) for item in value] or None
    if isinstance(value, dict):
        return {key: _plain(item, release) for key, item in sorted(value.items())} or None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return json.loads(go_form(value))


class _ShownField(NamedTuple):
    """A field as messages show it; ``known``: also if it is empty."""

    attribute: str
    word: str
    known: bool


@remembered("pods.validation.shown_fields", size=512)
def _shown(kind: type[msgspec.Struct], release: str) -> tuple[_ShownField, ...]:
    attributes = {name: attribute for attribute, name in json_names(kind).items()}
    order = _ORDER.get(kind, ())
    names = (*order, *(name for name in attributes if name not in order))
    return tuple(
        _ShownField(attributes[name], _word(name), name in order or is_known(kind.__name__, name, release))
        for name in names
    )


def _word(name: str) -> str:
    return _WORDS.get(name, name[:1].upper() + name[1:])
