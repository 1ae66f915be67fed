"""Which named texts of the API are enumerations, and of what (docs/spec/apimachinery.md §3).

Only those types that Kubernetes publishes as enumerations are here; others have known values too but may grow.
"""

from __future__ import annotations

from typing import Final

__all__ = ["values_of"]

_CORE: Final = {
    "AppArmorProfileType": ("Localhost", "RuntimeDefault", "Unconfined"),
    "AzureDataDiskCachingMode": ("None", "ReadOnly", "ReadWrite"),
    "AzureDataDiskKind": ("Dedicated", "Managed", "Shared"),
    "DNSPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "HostPathType": (
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ),
    "IPFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
    "MountPropagationMode": ("Bidirectional", "HostToContainer", "None"),
    "NamespacePhase": ("Active", "Terminating"),
    "NodeInclusionPolicy": ("Honor", "Ignore"),
    "NodePhase": ("Pending", "Running", "Terminated"),
    "NodeSelectorOperator": ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"),
    "PersistentVolumeClaimPhase": ("Bound", "Lost", "Pending"),
    "PersistentVolumeMode": ("Block", "Filesystem"),
    "PersistentVolumePhase": ("Available", "Bound", "Failed", "Pending", "Released"),
    "PersistentVolumeReclaimPolicy": ("Delete", "Recycle", "Retain"),
    "PodFSGroupChangePolicy": ("Always", "OnRootMismatch"),
    "PodPhase": ("Failed", "Pending", "Running", "Succeeded", "Unknown"),
    "PodQOSClass": ("BestEffort", "Burstable", "Guaranteed"),
    "PreemptionPolicy": ("Never", "PreemptLowerPriority"),
    "ProcMountType": ("Default", "Unmasked"),
    "Protocol": ("SCTP", "TCP", "UDP"),
    "PullPolicy": ("Always", "IfNotPresent", "Never"),
    "ResourceQuotaScope": (
        "BestEffort",
        "CrossNamespacePodAffinity",
        "NotBestEffort",
        "NotTerminating",
        "PriorityClass",
        "Terminating",
        "VolumeAttributesClass",
    ),
    "RestartPolicy": ("Always", "Never", "OnFailure"),
    "ScopeSelectorOperator": ("DoesNotExist", "Exists", "In", "NotIn"),
    "SeccompProfileType": ("Localhost", "RuntimeDefault", "Unconfined"),
    "ServiceAffinity": ("ClientIP", "None"),
    "ServiceExternalTrafficPolicy": ("Cluster", "Local"),
    "ServiceInternalTrafficPolicy": ("Cluster", "Local"),
    "ServiceType": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "SupplementalGroupsPolicy": ("Merge", "Strict"),
    "TaintEffect": ("NoExecute", "NoSchedule", "PreferNoSchedule"),
    "TerminationMessagePolicy": ("FallbackToLogsOnError", "File"),
    "TolerationOperator": ("Equal", "Exists", "Gt", "Lt"),
    "URIScheme": ("HTTP", "HTTPS"),
    "UnsatisfiableConstraintAction": ("DoNotSchedule", "ScheduleAnyway"),
}
_RESOURCE: Final = {
    "AllocationConfigSource": ("FromClaim", "FromClass"),
    "DeviceAllocationMode": ("All", "ExactCount"),
    "DeviceTaintEffect": ("NoExecute", "NoSchedule", "None"),
    "DeviceTolerationOperator": ("Equal", "Exists"),
}
_GROUPS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "admissionregistration": {
        "FailurePolicyType": ("Fail", "Ignore"),
        "MatchPolicyType": ("Equivalent", "Exact"),
        "OperationType": ("*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
        "ReinvocationPolicyType": ("IfNeeded", "Never"),
        "ScopeType": ("*", "Cluster", "Namespaced"),
        "SideEffectClass": ("None", "NoneOnDryRun", "Some", "Unknown"),
    },
    "apps": {
        "DaemonSetUpdateStrategyType": ("OnDelete", "RollingUpdate"),
        "DeploymentStrategyType": ("Recreate", "RollingUpdate"),
        "PodManagementPolicyType": ("OrderedReady", "Parallel"),
        "StatefulSetUpdateStrategyType": ("OnDelete", "RollingUpdate"),
    },
    "batch": {
        "CompletionMode": ("Indexed", "NonIndexed"),
        "ConcurrencyPolicy": ("Allow", "Forbid", "Replace"),
        "PodFailurePolicyAction": ("Count", "FailIndex", "FailJob", "Ignore"),
        "PodFailurePolicyOnExitCodesOperator": ("In", "NotIn"),
        "PodReplacementPolicy": ("Failed", "TerminatingOrFailed"),
    },
    "core": _CORE,
    "networking": {
        "PathType": ("Exact", "ImplementationSpecific", "Prefix"),
        "PolicyType": ("Egress", "Ingress"),
    },
    "resource": _RESOURCE,
}


def values_of(package: str, name: str) -> tuple[str, ...]:
    """The values of a named text, sorted; none if it is no enumeration. ``package`` is as ``resource/v1``."""
    return _GROUPS.get(package.partition("/")[0], {}).get(name, ())
