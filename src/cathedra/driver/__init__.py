"""The driver SDK: write a DRA driver in a few lines of Python, for any Kubernetes node agent.

    from cathedra.driver import Device, Driver, Edits, run

    class Lamps(Driver):
        name = "lamp.example.com"

        def devices(self):
            return [Device(f"lamp-{i}", attributes={"index": i}) for i in range(4)]

        def prepare(self, claim):
            for lamp in claim.allocations:
                yield lamp.prepared(Edits(env={"LAMP": lamp.device}))

    run(Lamps())

In the order in which a claim passes through: `device` (devices and pools), `publishing` (ResourceSlices), `serving`
(the sockets that the node agent calls), `claim` (the allocation, and the edits of containers), `preparing` (checkpoint,
CDI files, metadata files), `health`. `driver` is the class to derive from, and `run` runs it. `fabric` is for devices
that are attached to a node only for a claim. `attributes` computes the standard attributes of a device's position in
the machine, `webhook` validates parameters on admission, and `kit` runs a driver without a cluster.
"""

from __future__ import annotations

from cathedra.api.core.meta_v1 import Condition
from cathedra.driver.claim import Claim, ClaimedDevice, DeviceNode, DeviceStatus, Edits, Hook, Mount, Prepared, Ref
from cathedra.driver.device import Device, Pool, Version
from cathedra.driver.driver import Driver, PreparedClaim, PreparedDeviceRecord
from cathedra.driver.errors import (
    CallFailed,
    ConfigError,
    DeviceInUse,
    DriverError,
    DroppedFieldsError,
    OptionError,
    PoolError,
    RegistrationFailed,
    Retry,
)
from cathedra.driver.fabric.controller import FabricController
from cathedra.driver.fabric.driver import Attachment, FabricDriver
from cathedra.driver.files import DiskFiles, Files, MemoryFiles
from cathedra.driver.health import DeviceHealth, Health
from cathedra.driver.metrics import Observer, PrometheusMetrics
from cathedra.driver.run import DriverPlacement, DriverRunner, run

__all__ = [
    "Attachment",
    "CallFailed",
    "Claim",
    "ClaimedDevice",
    "Condition",
    "ConfigError",
    "Device",
    "DeviceHealth",
    "DeviceInUse",
    "DeviceNode",
    "DeviceStatus",
    "DiskFiles",
    "Driver",
    "DriverError",
    "DriverPlacement",
    "DriverRunner",
    "DroppedFieldsError",
    "Edits",
    "FabricController",
    "FabricDriver",
    "Files",
    "Health",
    "Hook",
    "MemoryFiles",
    "Mount",
    "Observer",
    "OptionError",
    "Pool",
    "PoolError",
    "Prepared",
    "PreparedClaim",
    "PreparedDeviceRecord",
    "PrometheusMetrics",
    "Ref",
    "RegistrationFailed",
    "Retry",
    "Version",
    "run",
]
