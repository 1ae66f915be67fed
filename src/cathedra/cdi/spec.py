"""CDI documents: their form, their validation, the version that they need, and their files.

Decoding is strict: an unknown field rejects the document, because a runtime that ignored an edit would start a
container without its device. A document is written to a temporary file in the same directory and renamed. Names that
begin with a dot or have no known extension are no documents, so the temporary file is never read (docs/spec/node.md
§19.1, §19.3 to §19.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml
from cathedra.api.nesting import load_json
from cathedra.api.nulls import without_nulls

VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""Every published version of the format, oldest first."""

HOOK_NAMES: Final = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
_MAX_CLOS_ID: Final = 4096


class _SpecPart(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    pass


class DeviceNode(_SpecPart, frozen=True):
    """A device node to create in the container; missing values are those of the host's node."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class Mount(_SpecPart, frozen=True):
    """A bind mount, or one of another ``type``."""

    host_path: str
    container_path: str
    type: str = ""
    options: tuple[str, ...] = ()


class Hook(_SpecPart, frozen=True):
    """A program that the runtime runs at a point of the container's life; ``timeout`` in seconds."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class IntelRdt(_SpecPart, frozen=True, rename={"clos_id": "closID"}):
    """Cache and memory bandwidth allocation."""

    clos_id: str = ""
    l3_cache_schema: str = msgspec.field(default="", name="l3CacheSchema")
    mem_bw_schema: str = msgspec.field(default="", name="memBwSchema")
    schemata: tuple[str, ...] = ()
    enable_monitoring: bool = msgspec.field(default=False, name="enableMonitoring")


class NetDevice(_SpecPart, frozen=True):
    """A host network interface to move into the container under a name."""

    host_interface_name: str
    name: str


class ContainerEdits(_SpecPart, frozen=True):
    """Edits of a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self != _NO_EDITS


_NO_EDITS: Final = ContainerEdits()


class CDIDevice(_SpecPart, frozen=True):
    """One device of a document."""

    name: str
    annotations: dict[str, str] = {}
    container_edits: ContainerEdits = ContainerEdits()


class Spec(_SpecPart, frozen=True):
    """A CDI document: devices of one kind, and edits made once if any of them is used."""

    cdi_version: str
    kind: str
    annotations: dict[str, str] = {}
    devices: tuple[CDIDevice, ...] = ()
    container_edits: ContainerEdits = ContainerEdits()

    def all_edits(self) -> Iterator[ContainerEdits]:
        """Yield the document's edits and those of each device."""
        yield self.container_edits
        for device in self.devices:
            yield device.container_edits


def spec_from_plain(document: Any) -> Spec:
    """Return a document from plain values (as JSON or YAML gives them), checked.

    Raises:
        InvalidSpec: a field is unknown or has the wrong type, or a rule is broken.
    """
    try:
        # Go's decoder takes null for «absent» everywhere.
        spec = msgspec.convert(without_nulls(document, Spec), Spec)
    except msgspec.ValidationError as error:
        raise InvalidSpec(str(error)) from error
    validate(spec)
    return spec


def validate(spec: Spec) -> None:
    """Check every rule of the format.

    Raises:
        InvalidSpec: the first rule that is broken.
    """
    declared = spec.cdi_version.removeprefix("v")
    if declared not in VERSIONS:
        raise InvalidSpec(f'invalid version "{spec.cdi_version}"')
    try:
        validate_kind(spec.kind)
        for device in spec.devices:
            validate_device_name(device.name)
    except InvalidName as error:
        raise InvalidSpec(str(error)) from error
    needed = minimum_version(spec)
    if VERSIONS.index(declared) < VERSIONS.index(needed):
        raise InvalidSpec(f"the spec version must be at least v{needed}")
    _validate_devices(spec)
    for edits in spec.all_edits():
        _validate_edits(edits)


def _validate_devices(spec: Spec) -> None:
    if not spec.devices:
        raise InvalidSpec("invalid spec, no devices")
    seen: set[str] = set()
    for device in spec.devices:
        if device.name in seen:
            raise InvalidSpec(f'invalid spec, multiple device "{device.name}"')
        if not device.container_edits:
            raise InvalidSpec(f'invalid device "{device.name}", empty device edits')
        seen.add(device.name)


def minimum_version(spec: Spec) -> str:
    """Return the oldest version of the format that has all fields of ``spec``. Writers should declare it."""
    edits = tuple(spec.all_edits())
    rdts = [e.intel_rdt for e in edits if e.intel_rdt is not None]
    if any(e.net_devices for e in edits) or any(rdt.schemata or rdt.enable_monitoring for rdt in rdts):
        return "1.1.0"
    if rdts or any(e.additional_gids for e in edits):
        return "0.7.0"
    if spec.annotations or any(d.annotations for d in spec.devices) or "." in spec.kind.partition("/")[2]:
        return "0.6.0"
    if any(d.name[:1].isdigit() for d in spec.devices) or any(n.host_path for e in edits for n in e.device_nodes):
        return "0.5.0"
    if any(mount.type for e in edits for mount in e.mounts):
        return "0.4.0"
    return "0.3.0"


def _validate_edits(edits: ContainerEdits) -> None:
    for variable in edits.env:
        if variable.find("=") < 1:
            raise InvalidSpec(f'invalid container edits, invalid environment variable "{variable}"')
    for node in edits.device_nodes:
        _validate_device_node(node)
    for hook in edits.hooks:
        if hook.hook_name not in HOOK_NAMES:
            raise InvalidSpec(f'invalid container edits, invalid hook name "{hook.hook_name}"')
        if not hook.path:
            raise InvalidSpec(f'invalid container edits, hook "{hook.hook_name}" with empty path')
    for mount in edits.mounts:
        if not mount.host_path or not mount.container_path:
            raise InvalidSpec("invalid container edits, invalid mount, empty host or container path")
    if edits.intel_rdt is not None:
        _validate_clos_id(edits.intel_rdt.clos_id)
    _validate_net_devices(edits.net_devices)
    if any(not 0 <= gid < 2**32 for gid in edits.additional_gids):
        raise InvalidSpec("invalid container edits, additional GID out of range")


def _validate_device_node(node: DeviceNode) -> None:
    if not node.path:
        raise InvalidSpec("invalid container edits, invalid (empty) device path")
    if node.type not in {"", "b", "c", "u", "p"}:
        raise InvalidSpec(f'invalid container edits, device "{node.path}": invalid type "{node.type}"')
    if node.permissions != "none" and set(node.permissions) - set("rwm"):
        raise InvalidSpec(f'invalid container edits, device "{node.path}": invalid permissions "{node.permissions}"')


def _validate_clos_id(clos_id: str) -> None:
    slashes = "/" in clos_id and clos_id != "/"
    if clos_id in {".", ".."} or len(clos_id) >= _MAX_CLOS_ID or slashes or "\n" in clos_id:
        raise InvalidSpec("invalid container edits, invalid clos id")


def _validate_net_devices(devices: tuple[NetDevice, ...]) -> None:
    hosts = [device.host_interface_name for device in devices]
    names = [device.name for device in devices]
    if not all(hosts) or not all(names):
        raise InvalidSpec("invalid container edits, invalid net device, empty interface name")
    if len(set(hosts)) < len(hosts) or len(set(names)) < len(names):
        raise InvalidSpec("invalid container edits, invalid net device, interface used twice")


EXTENSIONS: Final = (".json", ".yaml")
"""Suffixes of a document's name. ``.yml`` is none."""


def file_name(kind: str, transient_id: str = "") -> str:
    """Return the customary name, without extension: ``vendor-class`` or ``vendor-class_id``."""
    static = kind.replace("/", "-")
    return f"{static}_{transient_id.replace('/', '_')}" if transient_id else static


def read_spec(path: Path) -> Spec:
    """Return the document at ``path``.

    Raises:
        InvalidSpec: it is no valid document; the text begins with the path.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        return spec_from_plain(_plain(path, data))
    except InvalidSpec as error:
        raise InvalidSpec(f"failed to read CDI Spec {path}: {error}") from error


def _plain(path: Path, data: bytes) -> Any:
    if path.suffix == ".json":
        try:
            return load_json(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise InvalidSpec(f"no JSON: {error}") from error
    try:
        return read_yaml(data).value
    except DecodeError as error:
        raise InvalidSpec(f"no YAML: {error}") from error


# Qualified CDI device names, ``vendor/class=name``: what drivers return and runtimes resolve.
#
# docs/spec/node.md §19.2. All names are ASCII and case-sensitive.

_KIND_PART: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_DEVICE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)


class QualifiedName(NamedTuple):
    """A device by vendor, class and name."""

    vendor: str
    class_: str
    name: str

    @staticmethod
    def parse(text: str) -> QualifiedName:
        """Return the parts of ``vendor/class=name``.

        Raises:
            InvalidName: the text is not of that form.
        """
        kind, equals, name = text.partition("=")
        vendor, slash, class_ = kind.partition("/")
        if text.startswith("/") or not equals or not slash:
            raise InvalidName(f'unqualified device "{text}", want vendor/class=name')
        validate_kind(kind)
        validate_device_name(name)
        return QualifiedName(vendor, class_, name)

    @property
    def kind(self) -> str:
        """Return the device's kind, ``vendor/class``."""
        return f"{self.vendor}/{self.class_}"

    def __str__(self) -> str:
        return f"{self.vendor}/{self.class_}={self.name}"


def validate_kind(kind: str) -> tuple[str, str]:
    """Validate vendor and class of ``vendor/class``.

    Raises:
        InvalidName: a part is missing or has a character that it must not have.
    """
    vendor, slash, class_ = kind.partition("/")
    if not slash:
        raise InvalidName(f'invalid kind "{kind}", want vendor/class')
    for what, part in (("vendor", vendor), ("class", class_)):
        if not _KIND_PART.fullmatch(part):
            raise InvalidName(
                f'invalid {what} "{part}" in "{kind}": must begin with a letter, end with a letter or digit, '
                "and hold only letters, digits, '_', '-' and '.' between"
            )
    return vendor, class_


def validate_device_name(name: str) -> None:
    """Check the part behind the equals sign.

    Raises:
        InvalidName: it is empty or has a character that it must not have.
    """
    if not _DEVICE.fullmatch(name):
        raise InvalidName(
            f'invalid device name "{name}": must begin and end with a letter or digit, '
            "and hold only letters, digits, '_', '-', '.' and ':' between"
        )


# Errors of CDI names, documents and edits.
#
# CDIError
# ├── InvalidName          a name is not vendor/class=name
# ├── InvalidSpec          a document breaks a rule; its devices do not exist
# ├── UnresolvableDevices  names that no valid document defines
# └── InjectionFailed      an edit cannot be made on this host


class CDIError(Exception):
    """Base of everything that this package raises."""


class InvalidName(CDIError, ValueError):
    """A name is not of the form vendor/class=name."""


class InvalidSpec(CDIError, ValueError):
    """A document breaks a rule of the format."""


class UnresolvableDevices(CDIError, LookupError):
    """Names that are not defined, or defined twice; ``names`` has them all."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"unresolvable CDI devices {', '.join(self.names)}")


class InjectionFailed(CDIError):
    """An edit cannot be made here, for example because a device node is missing on the host."""
