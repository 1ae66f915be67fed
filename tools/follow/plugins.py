"""Admission plug-ins and scheduler plug-ins that Kubernetes has on by default, with the weights of the latter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cathedra.scheduler.configuration.enablement import DEFAULT_PLUGINS
from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["ADMISSION", "differences", "read_admission", "read_scheduler"]

SUBJECT = "plugins"
ADMISSION_FILE = "pkg/kubeapiserver/options/plugins.go"
SCHEDULER_FILE = "pkg/scheduler/apis/config/v1/default_plugins.go"

ADMISSION: Mapping[str, str] = {
    "NamespaceLifecycle": "apiserver/admission/lifecycle.py",
    "LimitRanger": "apiserver/admission/limitranger.py",
    "ServiceAccount": "apiserver/admission/pods/defaults.py",
    "TaintNodesByCondition": "apiserver/admission/nodetaints.py",
    "PodSecurity": "apiserver/admission/podsecurity/enforcement.py",
    "Priority": "apiserver/admission/pods/defaults.py",
    "DefaultTolerationSeconds": "apiserver/admission/pods/defaults.py",
    "DefaultStorageClass": "apiserver/admission/defaultclasses.py",
    "PodGroupProtection": "apiserver/admission/protection.py",
    "PodGroupWorkloadExists": "apiserver/admission/protection.py",
    "RuntimeClass": "apiserver/admission/pods/runtimeclasses.py",
    "CertificateApproval": "apiserver/admission/certificates.py",
    "CertificateSigning": "apiserver/admission/certificates.py",
    "CertificateSubjectRestriction": "apiserver/admission/certificates.py",
    "DefaultIngressClass": "apiserver/admission/defaultclasses.py",
    "PodTopologyLabels": "apiserver/admission/pods/topologylabels.py",
    "MutatingAdmissionPolicy": "apiserver/admission/policies/mutating.py",
    "MutatingAdmissionWebhook": "apiserver/admission/webhooks/mutating.py",
    "ValidatingAdmissionPolicy": "apiserver/admission/policies/check.py",
    "ValidatingAdmissionWebhook": "apiserver/admission/webhooks/validating.py",
    "StorageObjectInUseProtection": "apiserver/admission/protection.py",
    "ResourceQuota": "apiserver/admission/resourcequota.py",
}
"""Kubernetes' name of each plug-in that Cathedra has → its module."""

_ADMISSION_ENTRY = re.compile(r"\w+\.PluginName,\s*// (\w+)")
_SCHEDULER_ENTRY = re.compile(r"\{Name: names\.(\w+)(?:, Weight: ptr\.To\[int32\]\((\d+)\))?\}")


def read_admission(text: str) -> list[str]:
    """Return the names of the plug-ins that are on by default, in the order of the file."""
    default_on = text.partition("func DefaultOffAdmissionPlugins")[2].partition("\n}")[0]
    # Some comments write a name in other letters than the list of all plug-ins does.
    spelled = {name.lower(): name for name in _ADMISSION_ENTRY.findall(text.partition("func ")[0])}
    return [spelled.get(name.lower(), name) for name in _ADMISSION_ENTRY.findall(default_on)]


def read_scheduler(text: str) -> dict[str, int]:
    """Return the default plug-ins of the scheduler with their weights."""
    return {name: int(weight or 0) for name, weight in _SCHEDULER_ENTRY.findall(text)}


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield plug-ins that only one side has, and weights that differ."""
    del release
    admission = source.read(ADMISSION_FILE)
    if admission is not None:
        theirs = set(read_admission(admission))
        for name in sorted(theirs ^ ADMISSION.keys()):
            has = name in theirs
            yield Difference(SUBJECT, f"admission {name}", _has(has), _has(not has), ADMISSION_FILE)
    scheduler = source.read(SCHEDULER_FILE)
    if scheduler is not None:
        weights = read_scheduler(scheduler)
        for name in sorted(weights.keys() | DEFAULT_PLUGINS.keys()):
            if weights.get(name) != DEFAULT_PLUGINS.get(name):
                yield Difference(
                    SUBJECT, f"scheduler {name}", _weight(weights, name), _weight(DEFAULT_PLUGINS, name), SCHEDULER_FILE
                )


def _has(has: bool) -> str:
    return "has it on" if has else "does not have it on"


def _weight(weights: Mapping[str, int], name: str) -> str:
    return f"has it with weight {weights[name]}" if name in weights else "does not have it"
