"""Allocation of devices to claims on a node: pure functions over an inventory and a ledger.

Data flows through the package in this order:

* `Inventory` and `Ledger` (`cathedra.allocation.supply`) follow slice and claim events; ``snapshot()`` of either is
  cheap and immutable;
* `Allocator(features, classes, inventory.snapshot(), ledger.snapshot())` answers for that moment;
* ``allocator.prepare(claims)`` does once what is the same on every node, and gives `PreparedRequests`;
* ``prepared.on(node)`` gives an `Allocation` (one AllocationResult per claim, ready for the claim's status), or a
  `Refusal` (why not, as data), or raises `NodeError` (try other nodes) or `FatalError` (this pod cannot be scheduled
  now).

For a single result use `Cluster` with `allocate`, `fits` and `how_many` (`cathedra.allocation.cluster` has runnable
examples).
"""

from cathedra.allocation.allocator import Allocator, PreparedRequests
from cathedra.allocation.answers import Allocation, Answers
from cathedra.allocation.cluster import Cluster, DeviceUsage, Occupancy, allocate, fits, how_many
from cathedra.allocation.errors import (
    Aborted,
    AllocationError,
    DeviceSelectorError,
    FatalError,
    InvalidInput,
    NodeError,
)
from cathedra.allocation.features import (
    DEVELOPMENT_1_37,
    NEWEST,
    RELEASE_1_36,
    AllocatorBehaviour,
    Features,
    behaviour_of,
)
from cathedra.allocation.refusal import ConstraintReason, GroupReason, Refusal, RequestReason, SelectorReason
from cathedra.allocation.search.budget import UNLIMITED, Budget, LongSearch, SearchAllowance
from cathedra.allocation.supply.inventory import Inventory, InventorySnapshot
from cathedra.allocation.supply.ledger import Ledger, LedgerSnapshot

__all__ = [
    "DEVELOPMENT_1_37",
    "NEWEST",
    "RELEASE_1_36",
    "UNLIMITED",
    "Aborted",
    "Allocation",
    "AllocationError",
    "Allocator",
    "AllocatorBehaviour",
    "Answers",
    "Budget",
    "Cluster",
    "ConstraintReason",
    "DeviceSelectorError",
    "DeviceUsage",
    "FatalError",
    "Features",
    "GroupReason",
    "InvalidInput",
    "Inventory",
    "InventorySnapshot",
    "Ledger",
    "LedgerSnapshot",
    "LongSearch",
    "NodeError",
    "Occupancy",
    "PreparedRequests",
    "Refusal",
    "RequestReason",
    "SearchAllowance",
    "SelectorReason",
    "allocate",
    "behaviour_of",
    "fits",
    "how_many",
]
