"""Features of the allocator, and the behaviour of a release.

A feature is switched by a gate. A *behaviour* lists the points in which releases of Kubernetes give different results.
The newest behaviour is the default. Older ones exist so that a cluster of that release can be imitated and its results
explained, faults included (docs/spec/allocation.md §2 and §14).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from cathedra.releases import behaviours


class AllocatorBehaviour(msgspec.Struct, frozen=True, cache_hash=True):
    """Differences between releases. Each field is a row of the table in section 14, and its default is the newest
    release."""

    name: str = "newest"
    claim_size_checked_last: bool = False
    """The limit of 32 devices is tested after all requests of a claim, with another text."""
    selector_errors_name_device: bool = True
    """The text of a selector's error names the device, and hints at optional chaining."""
    lists_are_iterable_without_gate: bool = True
    """A selector may iterate over an attribute although the gate for lists is off."""
    counter_slices_reach_every_node: bool = False
    """A slice with shared counters counts on every node, whatever its node selection."""
    counter_slices_have_devices: bool = False
    """Counter sets are in the slices of the devices that consume them."""
    bad_pool_under_all_is_fatal: bool = False
    """All with an incomplete or invalid pool stops the pod, not just the node."""
    all_leaves_out_full_devices: bool = False
    """Mode All skips devices whose remaining capacity is too small."""
    class_config_for_all_is_unnamed: bool = True
    """Configuration that covers every request of a claim loses its list of requests."""
    claim_config_listed_once: bool = True
    """A claim's configuration appears once, however many requests it names."""
    versions_match_by_precedence: bool = True
    """matchAttribute ignores the build metadata of versions."""
    unknown_value_may_come_first: bool = False
    """A value of unknown type satisfies a constraint for the first device."""
    foreign_type_ends_distinct: bool = True
    """distinctAttribute stops comparing at the first value of another type."""
    capacity_names_are_qualified: bool = True
    """«mem» and «driver/mem» name the same capacity."""
    negative_capacity_is_fatal: bool = True
    """A negative amount stops the pod instead of being recorded."""
    rules_need_selector: bool = True
    """A taint rule without a selector taints no device."""
    releases_everything: bool = True
    """A rejected or withdrawn device leaves no trace; the eight known faults of section 14 are mended."""


NEWEST: Final = AllocatorBehaviour()
DEVELOPMENT_1_37: Final = AllocatorBehaviour(
    name="1.37 development",
    claim_size_checked_last=True,
    bad_pool_under_all_is_fatal=True,
    all_leaves_out_full_devices=True,
    versions_match_by_precedence=False,
    unknown_value_may_come_first=True,
    foreign_type_ends_distinct=False,
    capacity_names_are_qualified=False,
    negative_capacity_is_fatal=False,
    rules_need_selector=False,
    releases_everything=False,
)
"""As Kubernetes' development branch was on 1 July 2026."""
RELEASE_1_36: Final = AllocatorBehaviour(
    name="release 1.36",
    claim_size_checked_last=True,
    selector_errors_name_device=False,
    lists_are_iterable_without_gate=False,
    counter_slices_reach_every_node=True,
    bad_pool_under_all_is_fatal=True,
    all_leaves_out_full_devices=True,
    class_config_for_all_is_unnamed=False,
    claim_config_listed_once=False,
    versions_match_by_precedence=False,
    unknown_value_may_come_first=True,
    foreign_type_ends_distinct=False,
    capacity_names_are_qualified=False,
    negative_capacity_is_fatal=False,
    rules_need_selector=False,
    releases_everything=False,
)
"""As Kubernetes 1.36.2 is."""


RELEASE_1_34: Final = msgspec.structs.replace(
    RELEASE_1_36, name="release 1.34", counter_slices_reach_every_node=False, counter_slices_have_devices=True
)
"""As 1.36, with the form of partitions that the API server of 1.34 accepts."""


def behaviour_of(release: str) -> AllocatorBehaviour:
    """Return the behaviour of a release of Kubernetes (``1.36``). Releases before 1.36 are imitated as 1.36, except for
    the place of counters."""
    if not behaviours.COUNTERS_IN_OWN_SLICES.holds_in(release):
        return RELEASE_1_34
    if not behaviours.ALLOCATOR_MENDED.holds_in(release):
        return RELEASE_1_36
    made = msgspec.structs.replace(
        NEWEST,
        rules_need_selector=behaviours.TAINT_RULES_NEED_SELECTOR.holds_in(release),
        bad_pool_under_all_is_fatal=not behaviours.BROKEN_POOLS_ARE_NODE_LOCAL.holds_in(release),
        capacity_names_are_qualified=behaviours.CAPACITY_NAMES_QUALIFIED.holds_in(release),
    )
    # The name distinguishes behaviours in the keys of caches.
    return NEWEST if made == AllocatorBehaviour() else msgspec.structs.replace(made, name=f"release {release}")


_GATES: Final = {
    "admin_access": ("DRAAdminAccess",),
    "prioritized_list": ("DRAPrioritizedList",),
    "partitionable_devices": ("DRAPartitionableDevices",),
    "device_taints": ("DRADeviceTaints",),
    "device_binding_and_status": ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
    "consumable_capacity": ("DRAConsumableCapacity",),
    "fractional_capacity_range": ("DRAFractionalCapacityRange",),
    "list_type_attributes": ("DRAListTypeAttributes",),
    "optional_node_operations": ("DRAOptionalNodeOperations",),
    "derived_attributes": ("DRADerivedAttributes",),
    "compatibility_groups": ("DRADeviceCompatibilityGroups",),
    "shared_consumable_capacity": ("DRASharedConsumableCapacity",),
}

_NAMES: Final = {
    "AdminAccess": "admin_access",
    "PrioritizedList": "prioritized_list",
    "PartitionableDevices": "partitionable_devices",
    "DeviceTaints": "device_taints",
    "DeviceBindingAndStatus": "device_binding_and_status",
    "ConsumableCapacity": "consumable_capacity",
    "FractionalCapacityRange": "fractional_capacity_range",
    "ListTypeAttributes": "list_type_attributes",
    "OptionalNodeOperations": "optional_node_operations",
    "DerivedAttributes": "derived_attributes",
    "CompatibilityGroups": "compatibility_groups",
    "SharedConsumableCapacity": "shared_consumable_capacity",
}


class Features(msgspec.Struct, frozen=True, cache_hash=True):
    """The allocator's features, as the default gates of 1.37 set them, and the behaviour of a release.

    Immutable and hashable, so that it can be part of the key of a cache.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_binding_and_status: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = True
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    derived_attributes: bool = False
    compatibility_groups: bool = False
    shared_consumable_capacity: bool = False
    behaviour: AllocatorBehaviour = NEWEST

    @staticmethod
    def from_gates(gates: Mapping[str, bool], behaviour: AllocatorBehaviour = NEWEST) -> Features:
        """Return the features that ``gates`` enable; a gate that the release does not have is off."""
        return Features(
            **{feature: all(gate in gates and gates[gate] for gate in names) for feature, names in _GATES.items()},
            behaviour=behaviour,
        )

    @staticmethod
    def from_names(names: Mapping[str, bool], behaviour: AllocatorBehaviour = NEWEST) -> Features:
        """Features by Kubernetes' names («ConsumableCapacity»); those that are not named are off.

        Raises:
            KeyError: a name is unknown.
        """
        chosen = dict.fromkeys(_NAMES.values(), False) | {_NAMES[name]: value for name, value in names.items()}
        return Features(**chosen, behaviour=behaviour)

    @property
    def stable(self) -> bool:
        """Return True if Kubernetes' stable implementation serves this set: pools unsorted, no distinctAttribute."""
        return not (
            self.device_binding_and_status
            or self.consumable_capacity
            or self.fractional_capacity_range
            or self.list_type_attributes
            or self.optional_node_operations
            or self.derived_attributes
            or self.compatibility_groups
            or self.shared_consumable_capacity
        )

    @property
    def about_pools(self) -> tuple[bool, ...]:
        """The features that determine which pools a node can use, and how."""
        return (
            self.partitionable_devices,
            self.compatibility_groups,
            self.stable,
            self.behaviour.counter_slices_reach_every_node,
            self.behaviour.counter_slices_have_devices,
        )

    @property
    def everywhere(self) -> bool:
        """True if slices with shared counters count on every node, whatever their node selection."""
        if not self.partitionable_devices or self.behaviour.counter_slices_have_devices:
            return False
        return self.behaviour.counter_slices_reach_every_node or self.stable
