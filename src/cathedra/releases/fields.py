"""Fields of API types that some releases lack: the first and last release of each.

A field that is not listed exists in every release in which its type exists. The decoder treats a field of another
release as unknown, the protobuf codec skips its number, and OpenAPI leaves it out. The source of each row is
``types.go`` of the group at the tags of the releases.
"""

from __future__ import annotations

from typing import Final

from cathedra.releases.table import order

ONLY_IN: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("ResourceClaimSpec", "controller"): ("1.31", "1.31"),
    ("ResourceClaimStatus", "deallocationRequested"): ("1.26", "1.31"),
    ("ResourceClaimStatus", "devices"): ("1.32", ""),
    ("AllocationResult", "controller"): ("1.31", "1.31"),
    ("DeviceRequestAllocationResult", "adminAccess"): ("1.32", ""),
    ("DeviceClassSpec", "suitableNodes"): ("1.31", "1.31"),
    ("DeviceRequest", "firstAvailable"): ("1.33", ""),
    ("DeviceRequest", "tolerations"): ("1.33", ""),
    ("ExactDeviceRequest", "tolerations"): ("1.33", ""),
    ("DeviceSubRequest", "tolerations"): ("1.33", ""),
    ("DeviceRequestAllocationResult", "tolerations"): ("1.33", ""),
    ("BasicDevice", "taints"): ("1.33", ""),
    ("BasicDevice", "consumesCounters"): ("1.33", ""),
    ("BasicDevice", "nodeName"): ("1.33", ""),
    ("BasicDevice", "nodeSelector"): ("1.33", ""),
    ("BasicDevice", "allNodes"): ("1.33", ""),
    ("Device", "taints"): ("1.33", ""),
    ("Device", "consumesCounters"): ("1.33", ""),
    ("Device", "nodeName"): ("1.33", ""),
    ("Device", "nodeSelector"): ("1.33", ""),
    ("Device", "allNodes"): ("1.33", ""),
    ("ResourceSliceSpec", "sharedCounters"): ("1.33", ""),
    ("ResourceSliceSpec", "perDeviceNodeSelection"): ("1.33", ""),
    ("DeviceRequest", "capacity"): ("1.34", ""),
    ("ExactDeviceRequest", "capacity"): ("1.34", ""),
    ("DeviceSubRequest", "capacity"): ("1.34", ""),
    ("DeviceRequestAllocationResult", "shareID"): ("1.34", ""),
    ("DeviceRequestAllocationResult", "consumedCapacity"): ("1.34", ""),
    ("DeviceRequestAllocationResult", "bindingConditions"): ("1.34", ""),
    ("DeviceRequestAllocationResult", "bindingFailureConditions"): ("1.34", ""),
    ("AllocatedDeviceStatus", "shareID"): ("1.34", ""),
    ("AllocationResult", "allocationTimestamp"): ("1.34", ""),
    ("DeviceCapacity", "requestPolicy"): ("1.34", ""),
    ("DeviceConstraint", "distinctAttribute"): ("1.34", ""),
    ("BasicDevice", "allowMultipleAllocations"): ("1.34", ""),
    ("BasicDevice", "bindsToNode"): ("1.34", ""),
    ("BasicDevice", "bindingConditions"): ("1.34", ""),
    ("BasicDevice", "bindingFailureConditions"): ("1.34", ""),
    ("Device", "allowMultipleAllocations"): ("1.34", ""),
    ("Device", "bindsToNode"): ("1.34", ""),
    ("Device", "bindingConditions"): ("1.34", ""),
    ("Device", "bindingFailureConditions"): ("1.34", ""),
    ("DeviceClassSpec", "extendedResourceName"): ("1.34", ""),
    ("PodStatus", "extendedResourceClaimStatus"): ("1.34", ""),
    ("DeviceDerivedAttribute", ""): ("1.37", ""),
    ("ExactDeviceRequest", "derivedAttributes"): ("1.37", ""),
    ("DeviceSubRequest", "derivedAttributes"): ("1.37", ""),
    ("DeviceRequest", "derivedAttributes"): ("1.37", ""),
    ("DeviceCounterConsumption", "compatibilityGroups"): ("1.37", ""),
    ("Counter", "requestPolicy"): ("1.38", ""),
    ("Counter", "valueFrom"): ("1.38", ""),
    ("CounterValueFrom", ""): ("1.38", ""),
    ("CounterSetConsumption", ""): ("1.38", ""),
    ("DeviceRequestAllocationResult", "consumedCounters"): ("1.38", ""),
    ("Device", "nodeAllocatableResourceMappings"): ("1.36", "1.36"),
    ("BasicDevice", "nodeAllocatableResourceMappings"): ("1.36", "1.36"),
    ("Device", "nodeAllocatableResources"): ("1.37", ""),
    ("BasicDevice", "nodeAllocatableResources"): ("1.37", ""),
    ("ResourceSliceSpec", "partitionTypeAttribute"): ("1.37", ""),
    ("ResourceSliceSpec", "skipNodeOperations"): ("1.37", ""),
    ("DeviceRequestAllocationResult", "skipNodeOperations"): ("1.37", ""),
    ("ResourcePoolStatusRequestSpec", "defaultPartitionTypeAttribute"): ("1.37", ""),
    ("PoolStatus", "partitionSummary"): ("1.37", ""),
    ("PoolStatus", "shareableSummary"): ("1.37", ""),
    ("DeviceAttribute", "ints"): ("1.36", ""),
    ("DeviceAttribute", "bools"): ("1.36", ""),
    ("DeviceAttribute", "strings"): ("1.36", ""),
    ("DeviceAttribute", "versions"): ("1.36", ""),
    ("DeviceTaintRule", "status"): ("1.35", ""),
    ("DeviceTaintSelector", "deviceClassName"): ("1.33", "1.34"),
    ("DeviceTaintSelector", "selectors"): ("1.33", "1.34"),
    ("NodeAllocatableResourceClaimStatus", "resources"): ("1.36", "1.36"),
    ("NodeAllocatableResourceClaimStatus", "mapping"): ("1.37", ""),
    ("NodeAllocatableResourceClaimStatus", "overhead"): ("1.37", ""),
    ("PodStatus", "nodeAllocatableResourceClaimStatuses"): ("1.36", ""),
    ("PodSpec", "schedulingGroup"): ("1.36", ""),
    ("PodSpec", "workloadRef"): ("1.35", "1.35"),
    ("CSIDriverSpec", "preventPodSchedulingIfMissing"): ("1.36", ""),
    ("ListMeta", "shardInfo"): ("1.36", ""),
    ("ResourceHealth", "message"): ("1.36", ""),
    ("VolumeMountStatus", "volumeStatus"): ("1.36", ""),
    ("CSIDriverSpec", "serviceAccountTokenInSecrets"): ("1.35", ""),
    ("CustomResourceDefinitionCondition", "observedGeneration"): ("1.35", ""),
    ("CustomResourceDefinitionStatus", "observedGeneration"): ("1.35", ""),
    ("NodeStatus", "declaredFeatures"): ("1.35", ""),
    ("PodCertificateProjection", "userAnnotations"): ("1.35", ""),
    ("PodStatus", "allocatedResources"): ("1.35", ""),
    ("PodStatus", "resources"): ("1.35", ""),
    ("PodStatus", "volumeHealth"): ("1.37", ""),
    ("TokenRequestSpec", "attestations"): ("1.37", ""),
    ("HorizontalPodAutoscalerCondition", "observedGeneration"): ("1.37", ""),
    ("JobSpec", "scheduling"): ("1.37", ""),
    ("ClusterTrustBundleProjection", "user"): ("1.37", ""),
    ("ConfigMapVolumeSource", "defaultUser"): ("1.37", ""),
    ("DownwardAPIVolumeFile", "user"): ("1.37", ""),
    ("DownwardAPIVolumeSource", "defaultUser"): ("1.37", ""),
    ("EmptyDirVolumeSource", "mode"): ("1.37", ""),
    ("GRPCAction", "mode"): ("1.37", ""),
    ("HTTPGetAction", "protocol"): ("1.37", ""),
    ("KeyToPath", "user"): ("1.37", ""),
    ("NodeSpec", "podPreemptionPolicy"): ("1.37", ""),
    ("NodeSystemInfo", "runningInUserNamespace"): ("1.37", ""),
    ("PersistentVolumeClaimStatus", "healthStatus"): ("1.37", ""),
    ("PodCertificateProjection", "user"): ("1.37", ""),
    ("PodSpec", "evictionResponders"): ("1.37", ""),
    ("ProjectedVolumeSource", "defaultUser"): ("1.37", ""),
    ("SecretVolumeSource", "defaultUser"): ("1.37", ""),
    ("ServiceAccountTokenProjection", "user"): ("1.37", ""),
    ("VolumeMount", "bindMountOptions"): ("1.37", ""),
    ("CSINode", "status"): ("1.37", ""),
    ("PodResourceClaim", "source"): ("1.26", "1.30"),
    ("PodResourceClaim", "resourceClaimName"): ("1.31", ""),
    ("PodResourceClaim", "resourceClaimTemplateName"): ("1.31", ""),
    ("ResourceClass", "structuredParameters"): ("1.30", "1.30"),
    ("ResourceHandle", "structuredData"): ("1.30", "1.30"),
}
"""(type, JSON field) → first and last release that knows it; "" is open. Other releases treat it as unknown."""


REQUIRED_UNTIL: Final[dict[tuple[str, str], str]] = {
    ("ControllerRevision", "revision"): "1.36",
    ("Counter", "value"): "1.37",
    ("DaemonSetCondition", "status"): "1.36",
    ("DaemonSetCondition", "type"): "1.36",
    ("DeploymentCondition", "status"): "1.36",
    ("DeploymentCondition", "type"): "1.36",
    ("DeviceClass", "spec"): "1.36",
    ("EndpointSlice", "endpoints"): "1.35",
    ("NodeAllocatableResourceClaimStatus", "resources"): "1.36",
    ("PodDisruptionBudgetStatus", "currentHealthy"): "1.35",
    ("PodDisruptionBudgetStatus", "desiredHealthy"): "1.35",
    ("PodDisruptionBudgetStatus", "disruptionsAllowed"): "1.35",
    ("PodDisruptionBudgetStatus", "expectedPods"): "1.35",
    ("PodFailurePolicyOnPodConditionsPattern", "status"): "1.34",
    ("PriorityClass", "value"): "1.35",
    ("ReplicaSetCondition", "status"): "1.36",
    ("ReplicaSetCondition", "type"): "1.36",
    ("ResourceClaim", "spec"): "1.36",
    ("ResourceClaimTemplate", "spec"): "1.36",
    ("ResourceClaimTemplateSpec", "spec"): "1.36",
    ("ResourceSlice", "spec"): "1.36",
    ("RoleRef", "apiGroup"): "1.35",
    ("StatefulSetCondition", "status"): "1.36",
    ("StatefulSetCondition", "type"): "1.36",
    ("TokenRequest", "spec"): "1.35",
    ("TokenRequestSpec", "audiences"): "1.35",
    ("TokenRequestStatus", "expirationTimestamp"): "1.35",
    ("TokenRequestStatus", "token"): "1.35",
    ("WorkloadSpec", "podGroupTemplates"): "1.36",
}
"""(type, JSON field) → last release in which the field was required."""


REQUIRED_FROM: Final[dict[tuple[str, str], str]] = {
    ("ControllerRevision", "data"): "1.37",
    ("CronJob", "spec"): "1.36",
    ("DaemonSet", "spec"): "1.37",
    ("Deployment", "spec"): "1.37",
    ("FlowSchema", "spec"): "1.37",
    ("FlowSchemaCondition", "type"): "1.37",
    ("HorizontalPodAutoscaler", "spec"): "1.36",
    ("IPAddress", "spec"): "1.36",
    ("LimitedPriorityLevelConfiguration", "limitResponse"): "1.37",
    ("ParamRef", "parameterNotFoundAction"): "1.38",
    ("PriorityLevelConfiguration", "spec"): "1.37",
    ("PriorityLevelConfigurationCondition", "type"): "1.37",
    ("ReplicaSet", "spec"): "1.37",
    ("StatefulSet", "spec"): "1.37",
    ("TokenReviewSpec", "token"): "1.36",
    ("ValidatingAdmissionPolicyBinding", "spec"): "1.36",
    ("ValidatingAdmissionPolicyBindingSpec", "policyName"): "1.36",
    ("ValidatingAdmissionPolicyBindingSpec", "validationActions"): "1.36",
}
"""(type, JSON field) → first release in which the field is required, of types that older releases have too."""

LAST_WITH_TAINT_SELECTORS: Final = "1.34"
"""The last release whose DeviceTaintRules select devices by class and expression."""
_FIRST_WITH_V1: Final = "1.34"


def is_new_in_v1(type_name: str, json_name: str) -> bool:
    """Return True if a release that serves resource.k8s.io/v1 lacks the field."""
    first, last = ONLY_IN.get((type_name, json_name), ("", ""))
    return bool(last) or (bool(first) and order(first) > order(_FIRST_WITH_V1))


def is_known(type_name: str, json_name: str, release: str) -> bool:
    """Return True if the release (as ``1.36``) has the field of that type."""
    first, last = ONLY_IN.get((type_name, json_name), ("", ""))
    if first and order(release) < order(first):
        return False
    return not (last and order(release) > order(last))


def is_required(type_name: str, json_name: str, release: str, *, newest: bool) -> bool:
    """Return True if the release requires the field, where ``newest`` is true if the newest one does."""
    key = type_name, json_name
    if last := REQUIRED_UNTIL.get(key):
        return newest or order(release) <= order(last)
    first = REQUIRED_FROM.get(key)
    return newest and (first is None or order(release) >= order(first))
