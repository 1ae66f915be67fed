"""The kinds of resource.k8s.io/v1, the only version inside; older ones convert at the edge (docs/spec/api.md §2)."""

from __future__ import annotations

from typing import Final

from cathedra.api.core import core_v1, meta_v1
from cathedra.api.struct import UNSET_LIST, Int64, KubeStruct, Quantity, RawJSON, Time, always

_NOTHING: Final = Quantity("0")


class AllocatedDeviceStatus(KubeStruct, frozen=True, rename={"network_data": "networkData", "share_id": "shareID"}):
    """State of an allocated device, as its driver reports it."""

    driver: str = always(str)
    pool: str = always(str)
    device: str = always(str)
    share_id: str | None = None
    conditions: tuple[meta_v1.Condition, ...] | None = UNSET_LIST
    data: RawJSON | None = None
    network_data: NetworkDeviceData | None = None


class AllocationResult(
    KubeStruct, frozen=True, rename={"node_selector": "nodeSelector", "allocation_timestamp": "allocationTimestamp"}
):
    """Devices of an allocated claim, their configuration, and the nodes that can use them."""

    devices: DeviceAllocationResult = always(lambda: DeviceAllocationResult())
    node_selector: core_v1.NodeSelector | None = None
    allocation_timestamp: Time | None = None


class CELDeviceSelector(KubeStruct, frozen=True):
    """Holds a CEL expression about one device."""

    expression: str = always(str)


class CapacityRequestPolicy(
    KubeStruct, frozen=True, rename={"valid_values": "validValues", "valid_range": "validRange"}
):
    """Amounts of a capacity that a claim may request."""

    default: Quantity | None = UNSET_LIST
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class CapacityRequestPolicyRange(KubeStruct, frozen=True):
    """A range of amounts."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequirements(KubeStruct, frozen=True):
    """Amounts of a shared device's capacity that a claim requests."""

    requests: dict[str, Quantity] = {}


class Counter(KubeStruct, frozen=True, rename={"request_policy": "requestPolicy", "value_from": "valueFrom"}):
    """A quantity that devices draw from, or the amount that one of them takes."""

    value: Quantity | None = None
    request_policy: CapacityRequestPolicy | None = None
    value_from: CounterValueFrom | None = None

    @property
    def amount(self) -> Quantity:
        """The value, or nothing if the amount comes from a request (`value_from`)."""
        return _NOTHING if self.value is None else self.value


class CounterSet(KubeStruct, frozen=True):
    """A named set of counters that devices share."""

    name: str = always(str)
    counters: dict[str, Counter] = {}


class CounterSetConsumption(KubeStruct, frozen=True, rename={"counter_set": "counterSet"}):
    """Amounts that an allocation takes of the counters of a set."""

    counter_set: str = always(str)
    counters: dict[str, Quantity] = {}


class CounterValueFrom(KubeStruct, frozen=True, rename={"capacity_name": "capacityName"}):
    """Names the capacity whose requested amount a device takes of a counter."""

    capacity_name: str = always(str)


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
    """One thing that can be allocated."""

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
    """Configuration of an allocated claim."""

    source: str = always(str)
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(KubeStruct, frozen=True):
    """Lists allocated devices and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class DeviceAttribute(KubeStruct, frozen=True, rename={"int_": "int", "bool_": "bool"}):
    """A typed value. Exactly one field is set."""

    int_: Int64 | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: tuple[Int64, ...] = ()
    bools: tuple[bool, ...] = ()
    strings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


class DeviceCapacity(KubeStruct, frozen=True, rename={"request_policy": "requestPolicy"}):
    """A quantity and how it can be shared."""

    value: Quantity = always(lambda: Quantity("0"))
    request_policy: CapacityRequestPolicy | None = None


class DeviceClaim(KubeStruct, frozen=True):
    """Requests for devices, constraints among them, and configuration."""

    requests: tuple[DeviceRequest, ...] | None = UNSET_LIST
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class DeviceClaimConfiguration(KubeStruct, frozen=True):
    """Configuration in a claim."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClass(meta_v1.KubeObject, frozen=True, rename={"api_version": "apiVersion"}):
    """A kind of device that administrators offer: which devices belong to it, and how they are set up."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: DeviceClassSpec = always(lambda: DeviceClassSpec())


class DeviceClassConfiguration(KubeStruct, frozen=True):
    """Configuration in a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """A list of DeviceClass objects."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[DeviceClass, ...] = always(tuple)


class DeviceClassSpec(KubeStruct, frozen=True, rename={"extended_resource_name": "extendedResourceName"}):
    """Selectors, configuration and properties that a class gives to its devices."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceConfiguration(KubeStruct, frozen=True):
    """Configuration for a driver."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceConstraint(
    KubeStruct, frozen=True, rename={"match_attribute": "matchAttribute", "distinct_attribute": "distinctAttribute"}
):
    """Relates the devices of several requests."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceCounterConsumption(
    KubeStruct,
    frozen=True,
    rename={"counter_set": "counterSet", "compatibility_groups": "compatibilityGroups"},
):
    """Amounts of counters that a device consumes from one counter set."""

    counter_set: str = always(str)
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceDerivedAttribute(KubeStruct, frozen=True):
    """An attribute that a request computes from a device for its constraints (1.37)."""

    name: str = always(str)
    expression: str = always(str)


class DeviceRequest(KubeStruct, frozen=True, rename={"first_available": "firstAvailable"}):
    """A request for devices of one kind: either exactly, or by a list of alternatives of which the first possible is
    used."""

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
        "consumed_counters": "consumedCounters",
    },
):
    """One allocated device, with the request that it satisfies."""

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
    consumed_counters: tuple[CounterSetConsumption, ...] = ()


class DeviceSelector(KubeStruct, frozen=True):
    """An expression that selects devices."""

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
    """One way to satisfy a request; it knows no administrative access."""

    name: str = always(str)
    device_class_name: str = always(str)
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceTaint(KubeStruct, frozen=True, rename={"time_added": "timeAdded"}):
    """Keeps claims without a toleration away from a device."""

    key: str = always(str)
    value: str = ""
    effect: str = always(str)
    time_added: Time | None = None


class DeviceTaintRule(meta_v1.KubeObject, frozen=True, rename={"api_version": "apiVersion"}):
    """Adds a taint to all devices that it selects."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: DeviceTaintRuleSpec = always(lambda: DeviceTaintRuleSpec())
    status: DeviceTaintRuleStatus = always(lambda: DeviceTaintRuleStatus())


class DeviceTaintRuleList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """A list of DeviceTaintRule objects."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[DeviceTaintRule, ...] = always(tuple)


class DeviceTaintRuleSpec(KubeStruct, frozen=True, rename={"device_selector": "deviceSelector"}):
    """Taint of a rule, and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = always(lambda: DeviceTaint())


class DeviceTaintRuleStatus(KubeStruct, frozen=True):
    """Conditions that report the effect of a rule."""

    conditions: tuple[meta_v1.Condition, ...] = ()


class DeviceTaintSelector(KubeStruct, frozen=True, rename={"device_class_name": "deviceClassName"}):
    """Selects devices; what is left out matches everything. By class and expressions in 1.33 and 1.34 only."""

    device_class_name: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceToleration(KubeStruct, frozen=True, rename={"toleration_seconds": "tolerationSeconds"}):
    """Lets a request have devices in spite of a taint."""

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
    """A request for devices of one class."""

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
    """Network interface, hardware address and IP addresses of a device."""

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
    """Amount of a node's resource that an allocated device stands for."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableResourceMapping(
    KubeStruct, frozen=True, rename={"capacity_key": "capacityKey", "allocation_multiplier": "allocationMultiplier"}
):
    """Amount of a node resource that one device consumes, in the form of release 1.36."""

    capacity_key: str | None = None
    allocation_multiplier: Quantity | None = None


class NodeAllocatableOverhead(KubeStruct, frozen=True, rename={"per_pod": "perPod", "per_container": "perContainer"}):
    """Amount of a node's resource that the use of a device costs."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(KubeStruct, frozen=True):
    """Amounts that a device consumes of its node's own resources, such as cpu and memory."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class OpaqueDeviceConfiguration(KubeStruct, frozen=True):
    """Holds parameters that only their driver understands."""

    driver: str = always(str)
    parameters: RawJSON | None = UNSET_LIST


class ResourceClaim(meta_v1.KubeObject, frozen=True, rename={"api_version": "apiVersion"}):
    """A request for devices, and its allocation."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceClaimSpec = always(lambda: ResourceClaimSpec())
    status: ResourceClaimStatus = always(lambda: ResourceClaimStatus())


class ResourceClaimConsumerReference(KubeStruct, frozen=True, rename={"api_group": "apiGroup"}):
    """Names a consumer of a claim, in its namespace."""

    api_group: str = ""
    resource: str = always(str)
    name: str = always(str)
    uid: str = always(str)


class ResourceClaimList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """A list of ResourceClaim objects."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[ResourceClaim, ...] = always(tuple)


class ResourceClaimSpec(KubeStruct, frozen=True):
    """Requests for devices, with their constraints and configuration."""

    devices: DeviceClaim = always(lambda: DeviceClaim())


class ResourceClaimStatus(KubeStruct, frozen=True, rename={"reserved_for": "reservedFor"}):
    """Allocation, consumers and devices of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaimTemplate(meta_v1.KubeObject, frozen=True, rename={"api_version": "apiVersion"}):
    """Makes a claim for each pod that names it; the claim goes with its pod."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceClaimTemplateSpec = always(lambda: ResourceClaimTemplateSpec())


class ResourceClaimTemplateList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """A list of ResourceClaimTemplate objects."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ListMeta = always(lambda: meta_v1.ListMeta())
    items: tuple[ResourceClaimTemplate, ...] = always(tuple)


class ResourceClaimTemplateSpec(KubeStruct, frozen=True):
    """Metadata and spec of the claims that a template creates."""

    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceClaimSpec = always(lambda: ResourceClaimSpec())


class ResourcePool(KubeStruct, frozen=True, rename={"resource_slice_count": "resourceSliceCount"}):
    """Pool, generation and number of slices to which a slice belongs."""

    name: str = always(str)
    generation: Int64 = always(int)
    resource_slice_count: Int64 = always(int)


class ResourceSlice(meta_v1.KubeObject, frozen=True, rename={"api_version": "apiVersion"}):
    """A part of a pool of devices that a driver publishes."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = always(lambda: meta_v1.ObjectMeta())
    spec: ResourceSliceSpec = always(lambda: ResourceSliceSpec())


class ResourceSliceList(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """A list of ResourceSlice objects."""

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
    """Holds devices and where they can be used."""

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
