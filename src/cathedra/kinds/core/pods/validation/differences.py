"""What differs between two pod specs, in the words of Kubernetes' refusals.

Kubernetes shows a unified diff of its internal form: other names, another order, every field present. The tables here
say where that form differs from the wire's; all else follows from the wire form."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core import core_v1
from cathedra.api.goform import go_form, go_json
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.struct import json_names
from cathedra.releases.fields import ONLY_IN

__all__ = ["spec_difference"]

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


def spec_difference(old: core_v1.PodSpec, new: core_v1.PodSpec) -> str:
    """The unified diff, three lines around each change; "" where nothing differs.

    To compare texts line by line takes time that grows with the square of their length. Of specs with more than
    `_COMPARED` lines only those from the first change on are compared, `_NEAR` of each.
    """
    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) <= _COMPARED:
        return _difference(before, after)
    pairs = zip(before, after, strict=False)
    shorter = min(len(before), len(after))
    first = next((place for place, (one, other) in enumerate(pairs) if one != other), shorter)
    begin = max(first - _AROUND, 0)
    shown = _difference(before[begin : begin + _NEAR], after[begin : begin + _NEAR], skipped=begin)
    return f"{shown}… (cut)\n"


def _difference(before: Sequence[str], after: Sequence[str], *, skipped: int = 0) -> str:
    """The unified diff of two texts that follow ``skipped`` equal lines."""
    lines = [line for line in difflib.unified_diff(before, after, n=_AROUND) if line not in {"--- \n", "+++ \n"}]
    if skipped:
        lines = [_shifted(line, skipped) if line.startswith("@@ ") else line for line in lines]
    return "".join(lines)


def _shifted(heading: str, skipped: int) -> str:
    """The heading of a change, ``@@ -1,7 +1,7 @@``, with its two numbers of lines counted from further up."""
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + skipped}", heading)


def _lines(spec: core_v1.PodSpec) -> list[str]:
    # Not splitlines: that also ends lines at characters that JSON leaves in texts.
    return [f"{line}\n" for line in go_json(_pod(spec), indent=1).split("\n")]


def _pod(spec: core_v1.PodSpec) -> JSONObject:
    values = dict(_named(spec))
    found = {_word(name): _plain(values[name]) for name in _POD}
    security = spec.security_context
    if security is not None:
        inner = dict(_named(security))
        found["SecurityContext"] = {
            **{_word(name): _plain(values[name]) for name in _OF_THE_HOST},
            **{_word(name): _plain(inner[name]) for name in _SECURITY},
        }
    return found


def _named(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    for attribute, name in json_names(type(value)).items():
        yield name, getattr(value, attribute)


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct) and type(value).__module__ == core_v1.__name__:
        values = dict(_named(value))
        order = _ORDER.get(type(value), ())
        gone = {name for name in values if values[name] is None and _is_gone(type(value).__name__, name)}
        names = (*order, *(name for name in values if name not in order and name not in gone))
        return {_word(name): _plain(values[name]) for name in names}
    if isinstance(value, tuple):
        return [_plain(item) for item in value] or None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in sorted(value.items())} or None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return json.loads(go_form(value))


def _is_gone(kind: str, name: str) -> bool:
    """Whether only past releases had a field."""
    return bool(ONLY_IN.get((kind, name), ("", ""))[1])


def _word(name: str) -> str:
    return _WORDS.get(name, name[:1].upper() + name[1:])
