"""Levels of the Pod Security Standards: the labels that choose them, the checks of each version, and their result.

Checks run in order of their names, those of baseline first; a check of restricted may replace one of baseline. A
version that is newer than the server counts as the server's own. Wrong labels are errors when a namespace is written.
When a pod is written, enforcement is strict then, and audit and warnings are silent (api.PolicyToEvaluate of
k8s.io/pod-security-admission).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList, FieldPath
from cathedra.apiserver.admission.podsecurity import baseline, restricted
from cathedra.apiserver.admission.podsecurity.violations import Check, Violation
from cathedra.remembering import remembered


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
"""The minor version that stands for the newest."""
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
