"""Rules of resource slices (docs/spec/api.md §3.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.formats import check, longer_than
from cathedra.api.quantity import Quantity
from cathedra.api.struct import EMPTY_LIST
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.nodeselectors import validate_node_selector, validate_single_term
from cathedra.kinds.resource.binding import validate_binding_conditions, validate_skipped_operations
from cathedra.kinds.resource.names import (
    ItemRules,
    validate_driver_name,
    validate_fully_qualified_name,
    validate_items,
    validate_pool_name,
    validate_qualified_name,
    validate_taint,
)
from cathedra.kinds.resource.slices.counters import (
    validate_consumptions,
    validate_counter_sets,
    validate_policy,
    validate_references,
)
from cathedra.kinds.resource.slices.defaults import BareName
from cathedra.releases import FeatureGates, behaviours

MAX_DEVICES: Final = 128
MAX_RICH_DEVICES: Final = 64
IMMUTABLE: Final = "field is immutable"
_SPEC: Final = FieldPath("spec")
_NODES: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


def validate_slice(
    new: resource.ResourceSlice, old: resource.ResourceSlice | None, context: RequestContext
) -> ErrorList:
    """Return the errors of a slice; ``old`` is its previous version."""
    errors = ErrorList()
    spec = new.spec
    validate_driver_name(errors, _SPEC.child("driver"), spec.driver)
    _pool(errors, _SPEC.child("pool"), spec.pool)
    if old is not None:
        for path, after, stored in (
            (_SPEC.child("driver"), spec.driver, old.spec.driver),
            (_SPEC.child("pool", "name"), spec.pool.name, old.spec.pool.name),
            (_SPEC.child("nodeName"), spec.node_name, old.spec.node_name),
        ):
            if after != stored:
                errors.invalid(path, after, IMMUTABLE)
    _nodes(errors, spec)
    if (
        context.gates.has(behaviours.COUNTERS_IN_OWN_SLICES)
        and _written(spec.devices)
        and _written(spec.shared_counters)
    ):
        errors.invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed")
    before = {device.name: device for device in old.spec.devices} if old is not None else {}
    # What 1.38 refuses may be stored. It stays as long as no device changes: the list is atomic.
    unchanged = old is not None and old.spec.devices == spec.devices
    rules = DeviceRules(context, per_device_nodes=bool(spec.per_device_node_selection), unchanged=unchanged)
    _devices(errors, spec, before, rules, context)
    validate_counter_sets(errors, _SPEC.child("sharedCounters"), spec.shared_counters, context.gates)
    if not context.gates.has(behaviours.COUNTERS_IN_OWN_SLICES):
        validate_references(errors, _SPEC.child("devices"), spec)
    _partition_type(errors, spec, context)
    validate_skipped_operations(errors, _SPEC.child("skipNodeOperations"), spec.skip_node_operations)
    return errors


def _written(items: tuple[Any, ...]) -> bool:
    return bool(items) or items is EMPTY_LIST


def _pool(errors: ErrorList, path: FieldPath, pool: resource.ResourcePool) -> None:
    validate_pool_name(errors, path.child("name"), pool.name)
    if pool.resource_slice_count <= 0:
        errors.invalid(path.child("resourceSliceCount"), pool.resource_slice_count, "must be greater than zero")
    if pool.generation < 0:
        errors.invalid(path.child("generation"), pool.generation, "must be greater than or equal to zero")


def _nodes(errors: ErrorList, spec: resource.ResourceSliceSpec) -> None:
    given = []
    if spec.node_name is not None:
        path = _SPEC.child("nodeName")
        if not spec.node_name:
            errors.invalid(path, "", "must be either unset or set to a non-empty string")
        else:
            given.append("`nodeName`")
            check(errors, path, spec.node_name, formats.dns_subdomain)
    if spec.node_selector is not None:
        given.append("`nodeSelector`")
        validate_single_term(errors, _SPEC.child("nodeSelector"), spec.node_selector)
    for name, value in (("allNodes", spec.all_nodes), ("perDeviceNodeSelection", spec.per_device_node_selection)):
        if value:
            given.append(f"`{name}`")
        elif value is not None:
            errors.invalid(_SPEC.child(name), False, "must be either unset or set to true")
    if not given:
        errors.required(_SPEC, _NODES)
    elif len(given) > 1:
        errors.invalid(_SPEC, f"{{{', '.join(given)}}}", f"{_NODES}, but multiple fields are set")


def _devices(
    errors: ErrorList,
    spec: resource.ResourceSliceSpec,
    before: Mapping[str, resource.Device],
    rules: DeviceRules,
    context: RequestContext,
) -> None:
    path = _SPEC.child("devices")
    limit = MAX_DEVICES
    if context.gates.has(behaviours.RICH_SLICES_SMALLER) and any(_is_rich(device) for device in spec.devices):
        limit = MAX_RICH_DEVICES

    def device(where: FieldPath, item: resource.Device) -> None:
        rules.validate(errors, where, item, before.get(item.name))

    validate_items(errors, path, spec.devices, ItemRules(limit, device, key=lambda d: d.name), context.gates)


def _is_rich(device: resource.Device) -> bool:
    return bool(device.taints or device.consumes_counters) or any(
        _written(items)
        for attribute in device.attributes.values()
        for items in (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    )


def _partition_type(errors: ErrorList, spec: resource.ResourceSliceSpec, context: RequestContext) -> None:
    attribute = spec.partition_type_attribute
    if attribute is None:
        return
    consumers = [(i, device) for i, device in enumerate(spec.devices) if device.consumes_counters]
    if not consumers:
        path = _SPEC.child("partitionTypeAttribute")
        _of_partition_type(
            errors, path, attribute, "may only be set on a slice which declares devices that consume counters"
        )
        return
    # Discarded: tags report the same errors at the same path, and one list of them must not appear twice.
    malformed = ErrorList()
    validate_fully_qualified_name(malformed, _SPEC, attribute, context.gates)
    if malformed:
        return  # tags report it, and no device can carry such a name
    domain, _, name = attribute.partition("/")
    for position, device in consumers:
        where = _SPEC.child("devices").index(position).child("attributes").key(attribute)
        value = device.attributes.get(attribute)
        if value is None and domain == spec.driver:
            value = device.attributes.get(name)
        if value is None:
            text = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            errors.required(where, text)
        elif value.string is None:
            text = "must be a string value because `partitionTypeAttribute` names this attribute"
            _of_partition_type(errors, where, value, text)


def _of_partition_type(errors: ErrorList, path: FieldPath, value: Any, detail: str) -> None:
    """Report an error that no tag covers, though tags have rules for the same fields."""
    errors.append(FieldError(ErrorType.INVALID, path, value, detail, origin="partitionTypeAttribute"))


MAX_PROPERTIES: Final = 32
MAX_VALUES: Final = 48
MAX_VALUE: Final = 64
MAX_TAINTS: Final = 16
MAX_TAINTS_BEFORE_135: Final = 4
LISTS: Final = ("ints", "bools", "strings", "versions")
_ATTRIBUTE_KEY: Final = 96


def shortened(key: str, limit: int) -> str:
    """Return a map's key as paths show it: cut in the middle if it is longer than any right one."""
    if len(key) <= limit:
        return key
    half = (limit - 3) // 2
    return f"{key[:half]}...{key[len(key) - half :]}"


class DeviceRules:
    """Rules of a device, with those properties of its slice that they depend on."""

    def __init__(self, context: RequestContext, *, per_device_nodes: bool, unchanged: bool = False) -> None:
        """``unchanged``: no device of the slice differs from its stored one, so that rules of 1.38 let them pass."""
        self._context = context
        self._per_device_nodes = per_device_nodes
        self._unchanged = unchanged
        one_term = context.gates.has(behaviours.DEVICE_SELECTORS_HAVE_ONE_TERM) and not unchanged
        # Chosen once per slice and not once per device: a slice has up to 128 devices.
        self._node_selector = validate_single_term if one_term else validate_node_selector

    def validate(
        self, errors: ErrorList, path: FieldPath, device: resource.Device, old: resource.Device | None
    ) -> None:
        """Return the errors of the device; ``old`` is the stored device of that name."""
        check(errors, path.child("name"), device.name, formats.dns_label)
        # Releases whose devices sit in «basic» report the missing part alone; other rules have nothing to validate.
        if isinstance(device.name, BareName) and self._context.gates.has(behaviours.DEVICES_NEED_BASIC):
            errors.required(path.child("basic"))
            return
        self._counts(errors, path, device)
        self._attributes(errors, path.child("attributes"), device.attributes)
        self._capacity(errors, path.child("capacity"), device, old)
        if not (
            old is not None
            and self._context.gates.has(behaviours.STORED_TAINTS_UNVALIDATED)
            and old.taints == device.taints
        ):
            # Ratcheting: what is stored passes although the limit became smaller, or an update of another field would
            # be refused.
            self._taints(errors, path.child("taints"), device.taints)
        # These calls run in the order in which Kubernetes validates the fields; the Status lists the errors in it.
        validate_consumptions(errors, path.child("consumesCounters"), device.consumes_counters, self._context.gates)
        self._nodes(errors, path, device)
        validate_binding_conditions(errors, path, device.binding_conditions, device.binding_failure_conditions)
        validate_mappings(errors, path.child("nodeAllocatableResourceMappings"), device)
        validate_node_resources(errors, path.child("nodeAllocatableResources"), device)

    @staticmethod
    def _counts(errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
        properties = len(device.attributes) + len(device.capacity)
        if properties > MAX_PROPERTIES:
            errors.invalid(
                path,
                properties,
                f"the total number of attributes and capacities must not exceed {MAX_PROPERTIES}",
            )
        values = sum(_value_count(attribute) for attribute in device.attributes.values())
        if values > MAX_VALUES:
            errors.invalid(path, values, f"the total number of attribute values must not exceed {MAX_VALUES}")

    def _attributes(
        self, errors: ErrorList, path: FieldPath, attributes: Mapping[str, resource.DeviceAttribute]
    ) -> None:
        # Sorted: Go's maps have no order, and errors must have one that tests and clients can compare.
        for name, attribute in sorted(attributes.items()):
            self._key(errors, path, name)
            validate_attribute(errors, path.key(shortened(name, _ATTRIBUTE_KEY)), attribute, self._context.gates)

    def _key(self, errors: ErrorList, path: FieldPath, name: str) -> None:
        """Validate the name of an attribute or a capacity; from 1.32 to 1.35 errors are at the value's own path."""
        gates = self._context.gates
        # Releases before 1.38 stored such names. A slice that has them must stay writable.
        if self._unchanged and name.count("/") > 1:
            return
        at_value = gates.has(behaviours.DEVICE_KEY_ERRORS_AT_VALUE)
        validate_qualified_name(errors, path.key(name) if at_value else path, name, gates)

    def _capacity(
        self, errors: ErrorList, path: FieldPath, device: resource.Device, old: resource.Device | None
    ) -> None:
        if (
            old is not None
            and self._context.gates.has(behaviours.STORED_CAPACITY_UNVALIDATED)
            and old.capacity == device.capacity
        ):
            return
        for name, capacity in sorted(device.capacity.items()):
            self._key(errors, path, name)
            policy = capacity.request_policy
            if policy is None:
                continue
            where = path.key(shortened(name, _ATTRIBUTE_KEY)).child("requestPolicy")
            # A policy is for shares; a device that is allocated whole has none.
            if not device.allow_multiple_allocations:
                errors.forbidden(where, "allowMultipleAllocations must be true")
            else:
                validate_policy(errors, where, policy, capacity.value, self._context.gates)

    def _taints(self, errors: ErrorList, path: FieldPath, taints: tuple[resource.DeviceTaint, ...]) -> None:
        gates = self._context.gates

        def taint(where: FieldPath, item: resource.DeviceTaint) -> None:
            validate_taint(errors, where, item, gates)

        limit = MAX_TAINTS if gates.has(behaviours.SIXTEEN_TAINTS_A_DEVICE) else MAX_TAINTS_BEFORE_135
        validate_items(errors, path, taints, ItemRules(limit, taint), gates)

    def _nodes(self, errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
        written = (device.node_name, device.node_selector, device.all_nodes)
        if not self._per_device_nodes:
            # The bad value is empty because Kubernetes passes nil: it names the device and not one of three fields.
            if any(value is not None for value in written):
                errors.invalid(
                    path,
                    None,
                    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
                    "is set to true in the ResourceSlice spec",
                )
            return
        given = []
        if device.node_name is not None:
            if not device.node_name:
                errors.invalid(path.child("nodeName"), "", "must not be empty")
            else:
                given.append("`nodeName`")
                check(errors, path.child("nodeName"), device.node_name, formats.dns_subdomain)
        if device.node_selector is not None:
            given.append("`nodeSelector`")
            self._node_selector(errors, path.child("nodeSelector"), device.node_selector)
        if device.all_nodes:
            given.append("`allNodes`")
        elif device.all_nodes is not None:
            errors.invalid(path.child("allNodes"), False, "must be either unset or set to true")
        required = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
            "is set to true in the ResourceSlice spec"
        )
        if not given:
            errors.required(path, required)
        elif len(given) > 1:
            errors.invalid(path, f"{{{', '.join(given)}}}", required)


def _value_count(attribute: resource.DeviceAttribute) -> int:
    scalars = sum(value is not None for value in (attribute.int_, attribute.bool_, attribute.string, attribute.version))
    return scalars + sum(len(items) for items in _lists(attribute))


def _lists(attribute: resource.DeviceAttribute) -> tuple[tuple[Any, ...], ...]:
    return attribute.ints, attribute.bools, attribute.strings, attribute.versions


def validate_attribute(
    errors: ErrorList, path: FieldPath, attribute: resource.DeviceAttribute, gates: FeatureGates
) -> None:
    """Validate an attribute: one value, of the form its type demands."""
    given = sum(value is not None for value in (attribute.int_, attribute.bool_, attribute.string, attribute.version))
    if attribute.string is not None and longer_than(attribute.string, MAX_VALUE):
        errors.too_long(path.child("string"), MAX_VALUE)
    if attribute.version is not None:
        _version(errors, path.child("version"), attribute.version)
    for name, items in zip(LISTS, _lists(attribute), strict=True):
        if items is EMPTY_LIST:
            # An empty list differs from an absent one only in JSON; `EMPTY_LIST` keeps the difference through decoding.
            errors.invalid(path.child(name), [], "must not be empty if specified")
        # An empty list counts as a given value, as in Kubernetes: beside another one it is one value too many.
        given += bool(items) or items is EMPTY_LIST
    for position, text in enumerate(attribute.strings):
        if longer_than(text, MAX_VALUE):
            errors.too_long(path.child("strings").index(position), MAX_VALUE)
    for position, text in enumerate(attribute.versions):
        _version(errors, path.child("versions").index(position), text)
    if given == 0 and not gates.has(behaviours.ATTRIBUTE_WITHOUT_VALUE_INVALID):
        errors.required(path, "exactly one value must be specified")
    elif given == 0:
        errors.invalid(path, "", "exactly one value must be specified")
    elif given > 1:
        errors.invalid(path, attribute, "exactly one value must be specified")


def _version(errors: ErrorList, path: FieldPath, version: str) -> None:
    check(errors, path, version, formats.semver)
    # Both errors may appear: Kubernetes runs the two checks independently.
    if longer_than(version, MAX_VALUE):
        errors.too_long(path, MAX_VALUE)


def is_node_resource(name: str) -> bool:
    """Return True if a name is one of a node's own resources: without a domain, or in Kubernetes' own."""
    # The test of Kubernetes' IsNativeResource, which accepts the domain anywhere in the name.
    return "/" not in name or "kubernetes.io/" in name


def validate_mappings(errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
    """Validate the form of release 1.36."""
    for name, mapping in sorted(device.node_allocatable_resource_mappings.items()):
        where = path.key(name)
        if not is_node_resource(name):
            errors.invalid(where, name, "must be a node allocatable resource name")
        if mapping.capacity_key is not None:
            _capacity_key(errors, where.child("capacityKey"), mapping.capacity_key, device)
        multiplier = mapping.allocation_multiplier
        if multiplier is not None and multiplier.sign() <= 0:
            errors.invalid(where.child("allocationMultiplier"), multiplier, "must be positive")


def _capacity_key(errors: ErrorList, path: FieldPath, key: str, device: resource.Device) -> None:
    if not key:
        errors.invalid(path, key, "capacityKey must not be an empty string")
    elif key not in device.capacity:
        errors.not_found(path, key)


def validate_node_resources(errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
    """Validate the form of release 1.37."""
    for name, taken in sorted(device.node_allocatable_resources.items()):
        where = path.key(name)
        if not is_node_resource(name):
            errors.invalid(where, name, "must be a node allocatable resource name")
        if taken.mapping is None and taken.overhead is None:
            errors.required(where, "at least one of mapping or overhead must be set")
        if taken.mapping is not None:
            _mapping(errors, where.child("mapping"), taken.mapping, device)
        if taken.overhead is not None:
            _overhead(errors, where.child("overhead"), taken.overhead)


def _mapping(
    errors: ErrorList, path: FieldPath, mapping: resource.NodeAllocatableMapping, device: resource.Device
) -> None:
    """Validate one mapping. Tags require one of the multipliers."""
    if mapping.capacity_key is not None:
        _capacity_key(errors, path.child("capacityKey"), mapping.capacity_key, device)
        if mapping.capacity_multiplier is None:
            text = "capacityMultiplier is required when capacityKey is set"
            errors.required(path.child("capacityMultiplier"), text)
        else:
            _positive(errors, path.child("capacityMultiplier"), mapping.capacity_multiplier)
    _positive(errors, path.child("deviceMultiplier"), mapping.device_multiplier)
    if mapping.capacity_multiplier is not None and mapping.capacity_key is None:
        errors.required(path.child("capacityKey"), "capacityKey is required when capacityMultiplier is set")


def _positive(errors: ErrorList, path: FieldPath, amount: Quantity | None) -> None:
    if amount is not None and amount.sign() <= 0:
        errors.invalid(path, amount, "must be positive")


def _overhead(errors: ErrorList, path: FieldPath, overhead: resource.NodeAllocatableOverhead) -> None:
    if overhead.per_pod is None and overhead.per_container is None:
        errors.invalid(path, "", "at least one of perPod or perContainer must be set")
    for name, amount in (("perPod", overhead.per_pod), ("perContainer", overhead.per_container)):
        if amount is not None and amount.sign() < 0:
            errors.invalid(path.child(name), amount, "must be non-negative")
