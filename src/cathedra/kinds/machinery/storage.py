"""Kinds of storage.k8s.io: classes, drivers, nodes, capacities and attachments."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import storage_v1
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.declarative import FieldTags, TypeTags, long_name_caseless, max_length
from cathedra.kinds.defaults import changed
from cathedra.kinds.definition import AnyDefinition, Column, RequestContext
from cathedra.kinds.strategies import DefaultedStrategy, ObjectRules
from cathedra.releases import behaviours

STORAGE_CLASS_TAGS: Final = TypeTags(
    {"provisioner": FieldTags(required=True, immutable=True), "parameters": FieldTags(immutable=True)}
)
_ATTACHER: Final = FieldTags(required=True, checks=(long_name_caseless, max_length(63)))
ATTACHMENT_TAGS: Final = TypeTags({"spec": FieldTags(immutable=True, of=TypeTags({"attacher": _ATTACHER}))})
STORAGE_CLASS_COLUMNS: Final = (
    NAME,
    Column("Provisioner", description="What makes the volumes."),
    Column("ReclaimPolicy", description="What becomes of a volume after its claim."),
    Column("VolumeBindingMode", description="When a volume is bound."),
    Column("AllowVolumeExpansion", description="Whether volumes may grow."),
    AGE,
)
DRIVER_COLUMNS: Final = (
    NAME,
    Column("AttachRequired", type="boolean", description="Whether volumes are attached."),
    Column("PodInfoOnMount", type="boolean", description="Whether the driver receives information about the pod."),
    Column("StorageCapacity", type="boolean", description="Whether the driver publishes capacities."),
    Column("TokenRequests", description="Audiences of the tokens that the driver gets."),
    Column("RequiresRepublish", type="boolean", description="Whether volumes are published again and again."),
    Column("Modes", description="Lifecycles of volumes."),
    AGE,
)
NODE_COLUMNS: Final = (NAME, Column("Drivers", type="integer", description="How many drivers the node has."), AGE)
CAPACITY_COLUMNS: Final = (
    NAME,
    Column("StorageClassName", description="The class of storage."),
    Column("Capacity", description="What is left."),
)
ATTACHMENT_COLUMNS: Final = (
    NAME,
    Column("Attacher", description="What attaches the volume."),
    Column("PV", description="The volume."),
    Column("Node", description="The node."),
    Column("Attached", type="boolean", description="Whether it is attached."),
    AGE,
)
ATTRIBUTES_CLASS_COLUMNS: Final = (NAME, Column("DriverName", description="The driver that knows them."), AGE)
_IMMUTABLE: Final = "field is immutable"
_DRIVER_DEFAULTS: Final = {
    "attach_required": True,
    "pod_info_on_mount": False,
    "storage_capacity": False,
    "fs_group_policy": "ReadWriteOnceWithFSType",
    "volume_lifecycle_modes": ("Persistent",),
    "requires_republish": False,
    "se_linux_mount": False,
}
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def storage_class_cells(storage: storage_v1.StorageClass, now: float) -> list[Any]:
    """Return the cells of a StorageClass."""
    metadata = storage.metadata
    default = any(metadata.annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return [
        f"{metadata.name} (default)" if default else metadata.name,
        storage.provisioner,
        storage.reclaim_policy or "Delete",
        storage.volume_binding_mode or "Immediate",
        bool(storage.allow_volume_expansion),
        age(metadata.creation_timestamp, now),
    ]


def driver_cells(driver: storage_v1.CSIDriver, now: float) -> list[Any]:
    """Return the cells of a CSIDriver."""
    spec = driver.spec
    return [
        driver.metadata.name,
        spec.attach_required is not False,
        bool(spec.pod_info_on_mount),
        bool(spec.storage_capacity),
        ",".join(request.audience for request in spec.token_requests) if spec.token_requests else "<unset>",
        bool(spec.requires_republish),
        ",".join(spec.volume_lifecycle_modes) or "<none>",
        age(driver.metadata.creation_timestamp, now),
    ]


def node_cells(node: storage_v1.CSINode, now: float) -> list[Any]:
    """Return the cells of a CSINode."""
    return [node.metadata.name, len(node.spec.drivers or ()), age(node.metadata.creation_timestamp, now)]


def capacity_cells(capacity: storage_v1.CSIStorageCapacity, now: float) -> list[Any]:
    """Return the cells of a CSIStorageCapacity."""
    left = "<unset>" if capacity.capacity is None else str(capacity.capacity)
    return [capacity.metadata.name, capacity.storage_class_name, left]


def attachment_cells(attachment: storage_v1.VolumeAttachment, now: float) -> list[Any]:
    """Return the cells of a VolumeAttachment."""
    spec = attachment.spec
    return [
        attachment.metadata.name,
        spec.attacher,
        spec.source.persistent_volume_name or "",
        spec.node_name,
        attachment.status.attached,
        age(attachment.metadata.creation_timestamp, now),
    ]


def attributes_class_cells(attributes: storage_v1.VolumeAttributesClass, now: float) -> list[Any]:
    """Return the cells of a VolumeAttributesClass."""
    return [attributes.metadata.name, attributes.driver_name, age(attributes.metadata.creation_timestamp, now)]


def default_storage_class(storage: storage_v1.StorageClass) -> storage_v1.StorageClass:
    """With what becomes of its volumes (pkg/apis/storage/v1/defaults.go)."""
    return changed(
        storage,
        reclaim_policy="Delete" if storage.reclaim_policy is None else storage.reclaim_policy,
        volume_binding_mode="Immediate" if storage.volume_binding_mode is None else storage.volume_binding_mode,
    )


def default_driver(driver: storage_v1.CSIDriver) -> storage_v1.CSIDriver:
    """With what a driver is taken to need (pkg/apis/storage/v1/defaults.go)."""
    spec = driver.spec
    missing = {name: value for name, value in _DRIVER_DEFAULTS.items() if getattr(spec, name) in (None, ())}
    return replace(driver, spec=replace(spec, **missing)) if missing else driver


class DriverStrategy(DefaultedStrategy[storage_v1.CSIDriver]):
    """A driver: volumes that exist depend on whether it attaches them and on their lifecycles."""

    def validate_update(
        self, new: storage_v1.CSIDriver, old: storage_v1.CSIDriver, context: RequestContext
    ) -> ErrorList:
        """Refuse a change of what its volumes depend on."""
        errors = super().validate_update(new, old, context)
        if new.spec.attach_required != old.spec.attach_required:
            is_named = context.gates.has(behaviours.ATTACH_REQUIRED_NAMED)
            field = "attachRequired" if is_named else "attachedRequired"
            errors.invalid(f"spec.{field}", new.spec.attach_required, _IMMUTABLE)
        if new.spec.volume_lifecycle_modes != old.spec.volume_lifecycle_modes:
            errors.invalid("spec.volumeLifecycleModes", list(new.spec.volume_lifecycle_modes), _IMMUTABLE)
        return errors


def storage_definitions() -> tuple[AnyDefinition, ...]:
    """Return the definitions of all kinds of the group."""
    return (
        BuiltinKind(
            storage_v1.StorageClass,
            "storageclasses",
            returns_deleted_object=True,
            namespaced=False,
            default=default_storage_class,
            rules=ObjectRules(tags=STORAGE_CLASS_TAGS),
            table=(STORAGE_CLASS_COLUMNS, storage_class_cells),
            short_names=("sc",),
        ).definition(),
        BuiltinKind(
            storage_v1.CSIDriver,
            "csidrivers",
            returns_deleted_object=True,
            namespaced=False,
            default=default_driver,
            strategy=DriverStrategy(default_driver),
            table=(DRIVER_COLUMNS, driver_cells),
        ).definition(),
        BuiltinKind(
            storage_v1.CSINode,
            "csinodes",
            namespaced=False,
            returns_deleted_object=True,
            table=(NODE_COLUMNS, node_cells),
        ).definition(),
        BuiltinKind(
            storage_v1.CSIStorageCapacity,
            "csistoragecapacities",
            namespaced=True,
            table=(CAPACITY_COLUMNS, capacity_cells),
        ).definition(),
        BuiltinKind(
            storage_v1.VolumeAttachment,
            "volumeattachments",
            returns_deleted_object=True,
            namespaced=False,
            rules=ObjectRules(tags=ATTACHMENT_TAGS),
            table=(ATTACHMENT_COLUMNS, attachment_cells),
        ).definition(),
        BuiltinKind(
            storage_v1.VolumeAttributesClass,
            "volumeattributesclasses",
            returns_deleted_object=True,
            namespaced=False,
            table=(ATTRIBUTES_CLASS_COLUMNS, attributes_class_cells),
            short_names=("vac",),
        ).definition(),
    )
