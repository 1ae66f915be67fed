"""A claim from its driver's view: allocated devices, their parameters, and their edits of containers.

A ResourceClaim may hold devices of several drivers and configuration for each. A driver must skip those of others; here
it never receives them (docs/spec/driver-sdk.md §1 and §12). `Edits` are environment, mounts, device nodes and hooks;
the SDK writes the CDI document with them (docs/spec/node.md §19.3; docs/spec/driver-sdk.md §21.3).

Opaque parameters are decoded strictly into the driver's models. A webhook (`cathedra.driver.webhook`) refuses
parameters with the same errors that preparing the claim would raise (docs/spec/driver-sdk.md §12).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

import msgspec

from cathedra.api import resource
from cathedra.api.core.meta_v1 import Condition
from cathedra.api.nulls import convert
from cathedra.api.quantity import Quantity
from cathedra.cdi.spec import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice
from cathedra.driver.device import AttributeValue
from cathedra.driver.errors import ConfigError

__all__ = [
    "POD_CLAIM_NAME_ANNOTATION",
    "Claim",
    "ClaimedDevice",
    "ConfigModels",
    "DeviceNode",
    "DeviceStatus",
    "Edits",
    "Hook",
    "IntelRdt",
    "Mount",
    "Prepared",
    "Ref",
    "decode_parameters",
]

POD_CLAIM_NAME_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On claims made from a template: the name in the pod's ``spec.resourceClaims``."""

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True)
class Ref:
    """All that is known of a claim when it is unprepared; the claim itself may be gone."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """A driver's entry for a device in the claim's status."""

    data: Mapping[str, Any] | None = None
    """Any JSON, at most 10 KiB."""
    network_data: resource.NetworkDeviceData | None = None
    conditions: Sequence[Condition] = ()
    """Conditions of the device, at most eight; transition times are filled in."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer for one device: what the node agent and the container runtime need to know."""

    device: str
    pool: str
    requests: Sequence[str] = ()
    """The requests it serves; none means all of them."""
    cdi: Edits | Sequence[str] = ()
    """Edits, for which the SDK writes a specification; or names of devices that exist already."""
    share_id: str | None = None
    metadata: Mapping[str, AttributeValue] | None = None
    """Attributes for the container's metadata file; names without a domain get the driver's."""
    network_data: resource.NetworkDeviceData | None = None
    status: DeviceStatus | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    """JSON that the driver gets back when the claim is unprepared, and after a restart (`Driver.resume`)."""


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """An allocated device of the claim."""

    request: str
    """Name of the request, ``REQUEST`` or ``REQUEST/SUBREQUEST``."""
    pool: str
    device: str
    share_id: str | None = None
    """Set if the device is shared with other claims: then all state is kept per device and share."""
    admin: bool = False
    """Admin access: the device may be in use by others."""
    consumed: Mapping[str, Quantity] = field(default_factory=dict)
    """Consumed capacity of this share."""
    parameters: tuple[Mapping[str, Any], ...] = ()
    """Opaque parameters for this device in rising precedence: the class's, then the claim's."""
    sources: tuple[str, ...] = ()
    """Source of each of `parameters`: ``FromClass`` or ``FromClaim``."""
    configs: tuple[Any, ...] = ()
    """The same, as objects of the driver's models; empty if it declares none."""

    @property
    def base_request(self) -> str:
        """The request without its subrequest."""
        return self.request.partition("/")[0]

    def config(self, model: type[Model], default: Model | None = None) -> Model:
        """Return the configuration of type ``model`` with the highest precedence; ``default`` or ``model()`` if there
        is none.

        Entries are never merged: the highest wins as a whole.
        """
        # Entries are in rising precedence: the claim's override the class's.
        for config in reversed(self.configs):
            if isinstance(config, model):
                return config
        return model() if default is None else default

    def prepared(
        self,
        cdi: Edits | Sequence[str] = (),
        *,
        metadata: Mapping[str, AttributeValue] | None = None,
        network_data: resource.NetworkDeviceData | None = None,
        status: DeviceStatus | None = None,
        memory: Mapping[str, Any] | None = None,
    ) -> Prepared:
        """Return the answer for this device."""
        return Prepared(
            device=self.device,
            pool=self.pool,
            requests=(self.request,),
            cdi=cdi,
            share_id=self.share_id,
            metadata=metadata,
            network_data=network_data,
            status=status,
            memory=memory or {},
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """An allocated claim, reduced to one driver's part of it."""

    ref: Ref
    allocations: tuple[ClaimedDevice, ...]
    raw: resource.ResourceClaim

    @property
    def uid(self) -> str:
        """UID of the claim. A later claim of the same name has another one."""
        return self.ref.uid

    @property
    def name(self) -> str:
        """Name of the claim."""
        return self.ref.name

    @property
    def namespace(self) -> str:
        """Namespace of the claim."""
        return self.ref.namespace

    @property
    def pod_claim_name(self) -> str | None:
        """The name in the pod's ``spec.resourceClaims`` if the claim was made from a template."""
        return self.raw.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION)

    @staticmethod
    def of(raw: resource.ResourceClaim, driver: str, models: ConfigModels | None = None) -> Claim:
        """Return ``driver``'s view of an allocated claim.

        Raises:
            ConfigError: parameters for this driver are invalid. The text names their position.
        """
        metadata = raw.metadata
        ref = Ref(metadata.namespace, metadata.name, metadata.uid)
        allocation = raw.status.allocation
        if allocation is None:
            return Claim(ref, (), raw)
        # A driver that received the devices of others could prepare hardware that it does not control.
        own = [result for result in allocation.devices.results if result.driver == driver]
        return Claim(
            ref, tuple(_allocation(result, allocation.devices.config, driver, models or {}) for result in own), raw
        )


def _allocation(
    result: resource.DeviceRequestAllocationResult,
    entries: Sequence[resource.DeviceAllocationConfiguration],
    driver: str,
    models: ConfigModels,
) -> ClaimedDevice:
    parameters = tuple(_parameters(result.request, entries, driver))
    return ClaimedDevice(
        request=result.request,
        pool=result.pool,
        device=result.device,
        share_id=result.share_id,
        admin=bool(result.admin_access),
        consumed=result.consumed_capacity,
        parameters=tuple(values for _, _, values in parameters),
        sources=tuple(source for source, _, _ in parameters),
        configs=tuple(decode_parameters(values, models, where) for _, where, values in parameters) if models else (),
    )


def _parameters(
    request: str, entries: Sequence[resource.DeviceAllocationConfiguration], driver: str
) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Source, place and content of the parameters that count for a request."""
    base = request.partition("/")[0]
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    for i, entry in enumerate(entries):
        # An entry may name a subrequest or its request. No requests mean all of them.
        if entry.requests and request not in entry.requests and base not in entry.requests:
            continue
        where = f"status.allocation.devices.config[{i}]"
        # A kind of parameters that this SDK does not know. Ignoring it would run the device with other settings than
        # its owner chose.
        if entry.opaque is None:
            raise ConfigError(f"{where}: no opaque parameters; this needs a newer version of the driver {driver}")
        if entry.opaque.driver != driver:
            continue
        values = entry.opaque.parameters.load() if entry.opaque.parameters is not None else None
        if not isinstance(values, dict):
            raise ConfigError(f"{where}.opaque.parameters: a JSON object is expected, found {values!r}")
        found.append((entry.source, f"{where}.opaque.parameters", values))
    return found


@dataclass(frozen=True, slots=True)
class Edits:
    """Everything that a device changes in a container that uses it."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    device_nodes: Sequence[DeviceNode | str] = ()
    """A plain path stands for a node that is the same inside and outside."""
    hooks: Sequence[Hook] = ()
    additional_gids: Sequence[int] = ()
    net_devices: Mapping[str, str] = field(default_factory=dict)
    """Host interface → name in the container."""
    intel_rdt: IntelRdt | None = None

    def to_cdi(self) -> ContainerEdits:
        """Return the edits as a CDI document has them."""
        return ContainerEdits(
            env=tuple(f"{name}={value}" for name, value in self.env.items()),
            device_nodes=tuple(DeviceNode(path=n) if isinstance(n, str) else n for n in self.device_nodes),
            mounts=tuple(self.mounts),
            hooks=tuple(self.hooks),
            additional_gids=tuple(self.additional_gids),
            net_devices=tuple(
                NetDevice(host_interface_name=host, name=name) for host, name in self.net_devices.items()
            ),
            intel_rdt=self.intel_rdt,
        )


ConfigModels = Mapping[tuple[str, str], type[Any]]
"""(apiVersion, kind) of opaque parameters → the dataclass or struct that they fill."""


def decode_parameters(values: Mapping[str, Any], models: ConfigModels, where: str) -> Any:
    """Return parameters as an object of the driver's model; ``where`` they stand is for errors.

    Raises:
        ConfigError: the driver has no such kind, a field is unknown, or a value is not what the model takes.
    """
    kind = (str(values.get("apiVersion", "")), str(values.get("kind", "")))
    model = models.get(kind)
    if model is None:
        known = ", ".join(f"{version} {name}" for version, name in models)
        raise ConfigError(f'{where}: no kind "{kind[1]}" is known in "{kind[0]}"; this driver takes {known}')
    fields = {key: value for key, value in values.items() if key not in ("apiVersion", "kind")}
    _refuse_unknown(fields, model, where)
    try:
        return convert(fields, model)
    except (msgspec.ValidationError, ValueError) as problem:
        raise ConfigError(f"{where}: {problem}") from problem


def _refuse_unknown(values: Mapping[str, Any], model: type[Any], where: str) -> None:
    # Structs define whether unknown fields are refused; dataclasses cannot, and a typing error in a manifest
    # that is silently ignored costs its author hours.
    if not dataclasses.is_dataclass(model):
        return
    hints = get_type_hints(model)
    for name, value in values.items():
        if name not in hints:
            raise ConfigError(f'{where}: unknown field "{name}"; {model.__name__} has {", ".join(hints)}')
        if isinstance(value, dict) and isinstance(hints[name], type):
            _refuse_unknown(value, hints[name], f"{where}.{name}")
