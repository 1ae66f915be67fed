"""The kinds of resource.k8s.io/v1: devices as drivers publish them, and claims on them."""

from __future__ import annotations

from cathedra.api.core import core_v1, meta_v1
from cathedra.api.struct import UNSET_LIST, Int64, KubeStruct, Quantity, RawJSON, Time, always

__all__ = [
    "AllocatedDeviceStatus",
    "AllocationResult",
    "CELDeviceSelector",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "CapacityRequirements",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAllocationConfiguration",
    "DeviceAllocationResult",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceClaim",
    "DeviceClaimConfiguration",
    "DeviceClass",
    "DeviceClassConfiguration",
    "DeviceClassList",
    "DeviceClassSpec",
    "DeviceConfiguration",
    "DeviceConstraint",
    "DeviceCounterConsumption",
    "DeviceDerivedAttribute",
    "DeviceRequest",
    "DeviceRequestAllocationResult",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaint",
    "DeviceTaintRule",
    "DeviceTaintRuleList",
    "DeviceTaintRuleSpec",
    "DeviceTaintRuleStatus",
    "DeviceTaintSelector",
    "DeviceToleration",
    "ExactDeviceRequest",
    "NetworkDeviceData",
    "NodeAllocatableMapping",
    "NodeAllocatableOverhead",
    "NodeAllocatableResource",
    "NodeAllocatableResourceMapping",
    "OpaqueDeviceConfiguration",
    "ResourceClaim",
    "ResourceClaimConsumerReference",
    "ResourceClaimList",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateList",
    "ResourceClaimTemplateSpec",
    "ResourcePool",
    "ResourceSlice",
    "ResourceSliceList",
    "ResourceSliceSpec",
]


class AllocatedDeviceStatus(KubeStruct, frozen=True, rename={"network_data": "networkData", "share_id": "shareID"}):
    """resource/v1 AllocatedDeviceStatus."""

    driver: str = always(str)
    pool: str = always(str)
    device: str = always(str)
    conditions: tuple[meta_v1.Condition, ...] | None = UNSET_LIST
    data: RawJSON | None = None
    network_data: NetworkDeviceData | None = None
    share_id: str | None = None


class AllocationResult(
    KubeStruct, frozen=True, rename={"node_selector": "nodeSelector", "allocation_timestamp": "allocationTimestamp"}
):
    """resource/v1 AllocationResult."""

    devices: DeviceAllocationResult = always(lambda: DeviceAllocationResult())
    node_selector: core_v1.NodeSelector | None = None
    allocation_timestamp: Time | None = None


class CELDeviceSelector(KubeStruct, frozen=True):
    """resource/v1 CELDeviceSelector."""

    expression: str = always(str)


class CapacityRequestPolicy(
    KubeStruct, frozen=True, rename={"valid_values": "validValues", "valid_range": "validRange"}
):
    """resource/v1 CapacityRequestPolicy."""

    default: Quantity | None = UNSET_LIST
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class CapacityRequestPolicyRange(KubeStruct, frozen=True):
    """resource/v1 CapacityRequestPolicyRange."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequirements(KubeStruct, frozen=True):
    """resource/v1 CapacityRequirements."""

    requests: dict[str, Quantity] = {}


class Counter(KubeStruct, frozen=True):
    """resource/v1 Counter."""

    value: Quantity = always(lambda: Quantity("0"))


class CounterSet(KubeStruct, frozen=True):
    """resource/v1 CounterSet."""

    name: str = always(str)
    counters: dict[str, Counter] = {}


class Device(
    KubeStruct,
    frozen=True,
    rename={
        "consumes_counters": "consumesCounters",
        "node_name": "nodeName",
        "node_selector": "nodeSelector",
        "all_nodes": "allNodes",
        "binds_to_node": "bindsToNode",
        "binding_conditions": "bindingConditions",
        "binding_failure_conditions": "bindingFailureConditions",
        "allow_multiple_allocations": "allowMultipleAllocations",
        "node_allocatable_resource_mappings": "nodeAllocatableResourceMappings",
        "node_allocatable_resources": "nodeAllocatableResources",
    },
):
    """resource/v1 Device."""

    name: str = always(str)
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: core_v1.NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class DeviceAllocationConfiguration(KubeStruct, frozen=True):
    """resource/v1 DeviceAllocationConfiguration."""

    opaque: OpaqueDeviceConfiguration | None = None
    source: str = always(str)
    requests: tuple[str, ...] = ()


class DeviceAllocationResult(KubeStruct, frozen=True):
    """resource/v1 DeviceAllocationResult."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class DeviceAttribute(KubeStruct, frozen=True, rename={"int_": "int", "bool_": "bool"}):
    """resource/v1 DeviceAttribute."""

    int_: Int64 | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: tuple[Int64, ...] = ()
    bools: tuple[bool, ...] = ()
    strings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


class DeviceCapacity(KubeStruct, frozen=True, rename={"request_policy": "requestPolicy"}):
    """resource/v1 DeviceCapacity."""

    value: Quantity = always(lambda: Quantity("0"))
    request_policy: CapacityRequestPolicy | None = None


class DeviceClaim(KubeStruct, frozen=True):
    """resource/v1 DeviceClaim."""

    requests: tuple[DeviceRequest, ...] | None = UNSET_LIST
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class DeviceClaimConfiguration(KubeStruct, frozen=True):
    """resource/v1 DeviceClaimConfiguration."""

    opaque: OpaqueDeviceConfiguration | None = None
    requests: tuple[str, ...] = ()


class DeviceClass(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 DeviceClass."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: DeviceClassSpec = always(lambda: DeviceClassSpec())


class DeviceClassConfiguration(KubeStruct, frozen=True):
    """resource/v1 DeviceClassConfiguration."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 DeviceClassList."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[DeviceClass, ...] = always(tuple)


class DeviceClassSpec(KubeStruct, frozen=True, rename={"extended_resource_name": "extendedResourceName"}):
    """resource/v1 DeviceClassSpec."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceConfiguration(KubeStruct, frozen=True):
    """resource/v1 DeviceConfiguration."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceConstraint(
    KubeStruct, frozen=True, rename={"match_attribute": "matchAttribute", "distinct_attribute": "distinctAttribute"}
):
    """resource/v1 DeviceConstraint."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceCounterConsumption(
    KubeStruct,
    frozen=True,
    rename={"counter_set": "counterSet", "compatibility_groups": "compatibilityGroups"},
):
    """resource/v1 DeviceCounterConsumption."""

    counter_set: str = always(str)
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceDerivedAttribute(KubeStruct, frozen=True):
    """An attribute that a request computes from a device for its constraints (1.37)."""

    name: str = always(str)
    expression: str = always(str)


class DeviceRequest(KubeStruct, frozen=True, rename={"first_available": "firstAvailable"}):
    """resource/v1 DeviceRequest."""

    name: str = always(str)
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceRequestAllocationResult(
    KubeStruct,
    frozen=True,
    rename={
        "admin_access": "adminAccess",
        "binding_conditions": "bindingConditions",
        "binding_failure_conditions": "bindingFailureConditions",
        "share_id": "shareID",
        "consumed_capacity": "consumedCapacity",
        "skip_node_operations": "skipNodeOperations",
    },
):
    """resource/v1 DeviceRequestAllocationResult."""

    request: str = always(str)
    driver: str = always(str)
    pool: str = always(str)
    device: str = always(str)
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = None
    consumed_capacity: dict[str, Quantity] = {}
    skip_node_operations: tuple[str, ...] = ()


class DeviceSelector(KubeStruct, frozen=True):
    """resource/v1 DeviceSelector."""

    cel: CELDeviceSelector | None = None


class DeviceSubRequest(
    KubeStruct,
    frozen=True,
    rename={
        "device_class_name": "deviceClassName",
        "allocation_mode": "allocationMode",
        "derived_attributes": "derivedAttributes",
    },
):
    """resource/v1 DeviceSubRequest."""

    name: str = always(str)
    device_class_name: str = always(str)
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceTaint(KubeStruct, frozen=True, rename={"time_added": "timeAdded"}):
    """resource/v1 DeviceTaint."""

    key: str = always(str)
    value: str = ""
    effect: str = always(str)
    time_added: Time | None = None


class DeviceTaintRule(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 DeviceTaintRule."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: DeviceTaintRuleSpec = always(lambda: DeviceTaintRuleSpec())
    status: DeviceTaintRuleStatus = always(lambda: DeviceTaintRuleStatus())


class DeviceTaintRuleList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 DeviceTaintRuleList."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[DeviceTaintRule, ...] = always(tuple)


class DeviceTaintRuleSpec(KubeStruct, frozen=True, rename={"device_selector": "deviceSelector"}):
    """resource/v1 DeviceTaintRuleSpec."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = always(lambda: DeviceTaint())


class DeviceTaintRuleStatus(KubeStruct, frozen=True):
    """resource/v1 DeviceTaintRuleStatus."""

    conditions: tuple[meta_v1.Condition, ...] = ()


class DeviceTaintSelector(KubeStruct, frozen=True):
    """resource/v1 DeviceTaintSelector."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceToleration(KubeStruct, frozen=True, rename={"toleration_seconds": "tolerationSeconds"}):
    """resource/v1 DeviceToleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class ExactDeviceRequest(
    KubeStruct,
    frozen=True,
    rename={
        "device_class_name": "deviceClassName",
        "allocation_mode": "allocationMode",
        "admin_access": "adminAccess",
        "derived_attributes": "derivedAttributes",
    },
):
    """resource/v1 ExactDeviceRequest."""

    device_class_name: str = always(str)
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class NetworkDeviceData(
    KubeStruct, frozen=True, rename={"interface_name": "interfaceName", "hardware_address": "hardwareAddress"}
):
    """resource/v1 NetworkDeviceData."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class NodeAllocatableMapping(
    KubeStruct,
    frozen=True,
    rename={
        "capacity_key": "capacityKey",
        "capacity_multiplier": "capacityMultiplier",
        "device_multiplier": "deviceMultiplier",
    },
):
    """resource/v1 NodeAllocatableMapping."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableResourceMapping(
    KubeStruct, frozen=True, rename={"capacity_key": "capacityKey", "allocation_multiplier": "allocationMultiplier"}
):
    """What one device takes from a node resource, in the form of release 1.36."""

    capacity_key: str | None = None
    allocation_multiplier: Quantity | None = None


class NodeAllocatableOverhead(KubeStruct, frozen=True, rename={"per_pod": "perPod", "per_container": "perContainer"}):
    """resource/v1 NodeAllocatableOverhead."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(KubeStruct, frozen=True):
    """resource/v1 NodeAllocatableResource."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class OpaqueDeviceConfiguration(KubeStruct, frozen=True):
    """resource/v1 OpaqueDeviceConfiguration."""

    driver: str = always(str)
    parameters: RawJSON | None = UNSET_LIST


class ResourceClaim(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 ResourceClaim."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceClaimSpec = always(lambda: ResourceClaimSpec())
    status: ResourceClaimStatus = always(lambda: ResourceClaimStatus())


class ResourceClaimConsumerReference(KubeStruct, frozen=True, rename={"api_group": "apiGroup"}):
    """resource/v1 ResourceClaimConsumerReference."""

    api_group: str = ""
    resource: str = always(str)
    name: str = always(str)
    uid: str = always(str)


class ResourceClaimList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 ResourceClaimList."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[ResourceClaim, ...] = always(tuple)


class ResourceClaimSpec(KubeStruct, frozen=True):
    """resource/v1 ResourceClaimSpec."""

    devices: DeviceClaim = always(lambda: DeviceClaim())


class ResourceClaimStatus(KubeStruct, frozen=True, rename={"reserved_for": "reservedFor"}):
    """resource/v1 ResourceClaimStatus."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaimTemplate(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 ResourceClaimTemplate."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceClaimTemplateSpec = always(lambda: ResourceClaimTemplateSpec())


class ResourceClaimTemplateList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 ResourceClaimTemplateList."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[ResourceClaimTemplate, ...] = always(tuple)


class ResourceClaimTemplateSpec(KubeStruct, frozen=True):
    """resource/v1 ResourceClaimTemplateSpec."""

    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceClaimSpec = always(lambda: ResourceClaimSpec())


class ResourcePool(KubeStruct, frozen=True, rename={"resource_slice_count": "resourceSliceCount"}):
    """resource/v1 ResourcePool."""

    name: str = always(str)
    generation: Int64 = always(int)
    resource_slice_count: Int64 = always(int)


class ResourceSlice(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 ResourceSlice."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceSliceSpec = always(lambda: ResourceSliceSpec())


class ResourceSliceList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """resource/v1 ResourceSliceList."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[ResourceSlice, ...] = always(tuple)


class ResourceSliceSpec(
    KubeStruct,
    frozen=True,
    rename={
        "node_name": "nodeName",
        "node_selector": "nodeSelector",
        "all_nodes": "allNodes",
        "per_device_node_selection": "perDeviceNodeSelection",
        "shared_counters": "sharedCounters",
        "partition_type_attribute": "partitionTypeAttribute",
        "skip_node_operations": "skipNodeOperations",
    },
):
    """resource/v1 ResourceSliceSpec."""

    driver: str = always(str)
    pool: ResourcePool = always(lambda: ResourcePool())
    node_name: str | None = None
    node_selector: core_v1.NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()
