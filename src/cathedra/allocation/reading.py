"""Reading of objects in any form: YAML, files, dicts, typed objects, objects of the official client.

Every served version is accepted and converted to the newest (docs/spec/api.md §5). What cannot be read raises
`InvalidInput`, because an object that was read as an empty one would fit on every node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from cathedra.allocation.errors import InvalidInput, UndecodableInput
from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.decoding import (
    Decoded,
    DecodeError,
    WrittenObject,
    decode_values,
    decode_written,
    read_yaml_documents,
    written_items,
)
from cathedra.api.nesting import WRAPPED_DEPTH, load_json
from cathedra.api.quantity import Quantity
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import to_dict
from cathedra.releases import NEWEST
from cathedra.releases.fields import LAST_WITH_TAINT_SELECTORS

if TYPE_CHECKING:
    from zipfile import ZipFile

__all__ = [
    "Input",
    "NamedContent",
    "Placed",
    "Plain",
    "decode_plain",
    "decoded_object",
    "name_of",
    "placed_objects",
    "plain_objects",
    "read_input",
    "typed_object",
    "unpacked",
]

Input: TypeAlias = Any
"""YAML or JSON text (str or bytes), a `pathlib.Path` of a file, a directory or an archive, a `NamedContent`, a dict, a
typed object of `cathedra.api`, an object of the official Kubernetes client, or an iterable of these; Lists are taken
apart."""

_RESOURCE_GROUP: Final = "resource.k8s.io"
_MANIFESTS: Final = (".yaml", ".yml", ".json")
_PACKED: Final = tuple(f"{suffix}{packing}" for suffix in _MANIFESTS for packing in ("", ".gz", ".xz", ".bz2"))
_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
_ZIP: Final = ".zip"
_PACKINGS: Final = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2"}
"""First bytes of a packed file → its form."""
Skipped: TypeAlias = Callable[[str], None]
"""Receives the reason why a file of a folder or an archive is left out."""
_CLIENT_CLASS: Final = re.compile(r"(?:Core|Resource)?V(\d+(?:(?:alpha|beta)\d+)?)([A-Z]\w*)\Z")
_RESOURCE_KINDS: Final = frozenset(
    ("DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
)
_CORE_KINDS: Final[Mapping[str, type[KubeObject]]] = {"Node": core_v1.Node, "Pod": core_v1.Pod}
_TYPED_HUB: Final = "cathedra.api.resource"
_LIMIT: Final = "CATHEDRA_MAX_INPUT"
_DEFAULT_LIMIT: Final = "256Mi"
Plain: TypeAlias = Mapping[str, Any]
"""An object as plain values, with the names of JSON."""


@dataclass(frozen=True, slots=True)
class NamedContent:
    """The content of a file or an archive that is in memory, such as a file that was sent by a browser."""

    name: str
    """Name for messages. Its suffix selects the form, as that of a path does."""
    content: bytes

    def __str__(self) -> str:
        return self.name


class Placed(NamedTuple):
    """An object and the place where it was read."""

    object: KubeObject | Plain
    file: str = ""
    """The file; "" for objects that were passed in memory."""
    document: int = 0
    """Number of the document in the file, from 1; 0 if it is not known."""

    def __str__(self) -> str:
        return f"{self.file}, document {self.document}" if self.document else self.file


def plain_objects(given: Input, where: str = "", *, skipped: Skipped | None = None) -> Iterator[KubeObject | Plain]:
    """Yield the objects of ``given``: typed ones unchanged, all others as dicts.

    With ``skipped``, a file in a folder or archive that holds something else is left out and reported to it.

    Raises:
        InvalidInput: something is no Kubernetes object, or a text holds none; the error names its place.
    """
    return (one.object for one in placed_objects(given, where, skipped=skipped))


def placed_objects(given: Input, where: str = "", *, skipped: Skipped | None = None) -> Iterator[Placed]:
    """Yield the same objects as `plain_objects`, each with the file and the document that it is in.

    Raises:
        InvalidInput: as for `plain_objects`.
    """
    match given:
        case str() | bytes():
            yield from _of_text(given, where)
        case Path():
            yield from _of_path(given, skipped)
        case NamedContent(name, content):
            yield from _of_file(name, partial(BytesIO, content), skipped)
        case KubeObject():
            yield Placed(given)
        case Mapping():
            yield from map(Placed, _of_mapping(given, where))
        case _ if hasattr(given, "attribute_map") or callable(getattr(given, "to_dict", None)):
            yield from map(Placed, _of_mapping(_of_client_object(given), where))
        case Iterable():
            for number, one in enumerate(given):
                yield from placed_objects(one, f"{where}[{number}]", skipped=skipped)
        case _:
            raise InvalidInput(
                f"{where or 'input'}: a {type(given).__name__} is no Kubernetes object; pass YAML text, "
                "a pathlib.Path, a dict, or a typed object"
            )


def read_input(stream: IO[bytes], where: str) -> bytes:
    """Return the rest of ``stream``.

    At most 256 MiB are read, or the number of bytes in the environment variable CATHEDRA_MAX_INPUT (``1Gi``): a device
    file or an endless pipe would otherwise fill the memory.

    Raises:
        InvalidInput: there is more, or the variable is no size.
        OSError: it cannot be read.
    """
    limit = _limit()
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise InvalidInput(_too_long(where))
    return content


def unpacked(stream: IO[bytes], where: str) -> bytes:
    """Return the rest of ``stream``; if that is a gzip, xz or bzip2 file, its content, within the same limit.

    Raises:
        InvalidInput: there is more, or the packed file is damaged.
        OSError: it cannot be read.
    """
    content = read_input(stream, where)
    packing = next((name for start, name in _PACKINGS.items() if content.startswith(start)), "")
    if not packing:
        return content
    # start-up time: few inputs are packed
    import bz2
    import gzip
    import io
    import lzma
    import zlib

    openers: Mapping[str, Any] = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open}
    try:
        return read_input(cast("IO[bytes]", openers[packing](io.BytesIO(content))), where)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        # The content is in memory: an OSError is one of its form.
        raise InvalidInput(f"{where}: it is a damaged {packing} file: {error}") from error


def _limit() -> int:
    """Return the number of bytes that one input may have."""
    text = os.environ.get(_LIMIT, _DEFAULT_LIMIT)
    try:
        return Quantity.parse(text).value()
    except ValueError as error:
        raise InvalidInput(f"{_LIMIT} must be a size, such as 1Gi, got {text!r}") from error


def _too_long(where: str) -> str:
    return (
        f"{where}: it is longer than {os.environ.get(_LIMIT, _DEFAULT_LIMIT)}; "
        f"set the environment variable {_LIMIT}, as in {_LIMIT}=1Gi, to read it all the same"
    )


def typed_object(given: KubeObject | Plain, *, strict: bool) -> KubeObject | None:
    """Return the object in the newest version; None for kinds that allocation does not read.

    ``strict`` objects may have no unknown fields.

    Raises:
        InvalidInput: it has no kind, a version that is not served, or a field of the wrong type.
    """
    decoded = decoded_object(given)
    if decoded is None:
        return None
    if strict and decoded.problems:
        raise InvalidInput(f"{_kind_of(given)} {name_of(given)}: {', '.join(decoded.problems)}")
    return decoded.object


def decoded_object(given: KubeObject | Plain, release: str = "") -> Decoded[KubeObject] | None:
    """Return the object in the newest version, with the fields that the newest version does not have, or ``release``.

    Raises:
        InvalidInput: it has no kind, a version that is not served, or a field of the wrong type.
    """
    if isinstance(given, KubeObject):
        if type(given) in (core_v1.Node, core_v1.Pod) or type(given).__module__ == _TYPED_HUB:
            return Decoded(given)
        version = type(given).__module__.rpartition(".")[2].removeprefix("resource_")
        one: Plain = {"kind": type(given).__name__, "apiVersion": f"{_RESOURCE_GROUP}/{version}", **to_dict(given)}
    else:
        one = given
    kind, api_version = one.get("kind"), one.get("apiVersion", "")
    if not isinstance(kind, str) or not kind:
        raise InvalidInput(f"an object without a kind, with {_fields(one)}; say what it is, as in kind: ResourceClaim")
    if not isinstance(api_version, str):
        raise InvalidInput(f"{kind} {name_of(one)}: apiVersion must be a string, got {api_version!r}")
    gvk = GroupVersionKind.parse(api_version, kind)
    if kind in _CORE_KINDS and gvk.group == "":
        return _decoded(_CORE_KINDS[kind], GroupVersionKind("", "v1", kind), one, release)
    if kind in _RESOURCE_KINDS and (gvk.group == _RESOURCE_GROUP or not api_version):
        return _of_version(one, GroupVersionKind(_RESOURCE_GROUP, gvk.version or "v1", kind), release)
    return None


def _kind_of(one: KubeObject | Plain) -> str:
    return str(one.get("kind")) if isinstance(one, Mapping) else type(one).__name__


def name_of(one: KubeObject | Plain) -> str:
    """``namespace/name`` of an object, or as much of it as there is; for messages."""
    plain: Plain = to_dict(one) if isinstance(one, KubeObject) else one
    metadata = plain.get("metadata")
    if not isinstance(metadata, Mapping):
        return "without a name"
    parts = (metadata.get("namespace"), metadata.get("name") or metadata.get("generateName"))
    return "/".join(str(part) for part in parts if part) or "without a name"


def _of_text(text: str | bytes, where: str, *, may_be_empty: bool = False) -> Iterator[Placed]:
    found = may_be_empty
    try:
        for number, value in enumerate(_documents(text), 1):
            if value is None:
                continue
            found = True
            if isinstance(value, WrittenObject):
                # The items of a List are one document.
                yield Placed(value, where)
                continue
            if not isinstance(value, (Mapping, list)):
                raise InvalidInput(_no_object(text, where))
            for one in plain_objects(value, f"{where or 'text'}, document {number}"):
                yield Placed(one, where, number if where else 0)
    except DecodeError as error:
        raise InvalidInput(f"{where or 'text'}: {error}") from error
    if not found:
        raise InvalidInput(f"{where or 'text'}: it holds no object")


def _documents(text: str | bytes) -> Iterator[Any]:
    """Yield the values of the documents, and the items of a JSON List one by one. What looks like one JSON document is
    read as such, fifty times faster."""
    start = text[:64].lstrip()
    if start[:1] in ("{", b"{", "[", b"["):
        try:
            body = text.encode() if isinstance(text, str) else text
            items = written_items(body)
            yield from items if items is not None else (load_json(body, WRAPPED_DEPTH),)
        except (msgspec.DecodeError, UnicodeError):
            pass
        else:
            return
    # It is the caller's own, and dumps of large clusters are long.
    for document in read_yaml_documents(text, own=True):
        yield document.value


def _no_object(text: str | bytes, where: str) -> str:
    shown = text if isinstance(text, str) else text.decode(errors="replace")
    if where or "\n" in shown:
        return f"{where or 'text'}: it holds a text, and no Kubernetes object"
    return f"{shown!r} is a text, and no Kubernetes object; if it names a file, pass pathlib.Path({shown!r})"


def _of_path(path: Path, skipped: Skipped | None) -> Iterator[Placed]:
    if path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.name.endswith(_PACKED) and one.is_file())
        yield from _of_files(
            ((str(file), partial(_content, str(file), _opener(file))) for file in found),
            f"{path}: the directory",
            skipped,
        )
    else:
        yield from _of_file(str(path), _opener(path), skipped)


Opener: TypeAlias = Callable[[], IO[bytes]]
"""Opens a file for reading from its start."""


def _opener(path: Path) -> Opener:
    return lambda: path.open("rb")


def _of_file(name: str, opened: Opener, skipped: Skipped | None) -> Iterator[Placed]:
    if name.endswith(_ARCHIVES):
        yield from _of_files(_tar_members(name, opened), f"{name}: the archive", skipped)
    elif name.endswith(_ZIP):
        yield from _of_files(_zip_members(name, opened), f"{name}: the archive", skipped)
    else:
        yield from _of_text(_content(name, opened), name)


Files: TypeAlias = Iterable[tuple[str, Callable[[], bytes]]]
"""Names, each with the function that reads its content."""


def _of_files(files: Files, where: str, skipped: Skipped | None) -> Iterator[Placed]:
    """Yield the objects of the files of a folder or archive.

    Raises:
        InvalidInput: there is no file, or one cannot be read and ``skipped`` is None, or none can be read.
    """
    count, failures = 0, []
    for name, read in files:
        count += 1
        try:
            for one in _of_text(read(), name, may_be_empty=True):
                if skipped is not None and isinstance(one.object, Mapping) and not _has_kind(one.object):
                    raise InvalidInput(f"{name}: it holds a table, and no Kubernetes object")
                yield one
        except InvalidInput as error:
            if skipped is None:
                raise
            failures.append(error)
    if not count:
        raise InvalidInput(f"{where} holds no {', '.join(_MANIFESTS)} file")
    if skipped is None:
        return
    if len(failures) == count:
        raise failures[0]
    for failure in failures:
        skipped(str(failure))


def _has_kind(one: Plain) -> bool:
    return isinstance(one.get("kind"), str)


def _content(name: str, opened: Opener) -> bytes:
    try:
        with opened() as stream:
            return unpacked(stream, name)
    except OSError as error:
        raise InvalidInput(f"{name}: {error.strerror}") from error


def _tar_members(path: str, opened: Opener) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the manifests of a tar archive, which is never unpacked."""
    # start-up time: few inputs are archives
    import lzma
    import tarfile
    import zlib

    left = _limit()
    try:
        with opened() as stream, tarfile.open(fileobj=stream) as archive:
            for member in archive:
                # Members that are skipped count too: a small archive may unpack to any size.
                left -= member.size
                if left < 0:
                    raise InvalidInput(_too_long(path))
                name = f"{path}:{member.name}"
                inner = archive.extractfile(member) if member.isfile() and member.name.endswith(_PACKED) else None
                if inner is not None:
                    yield name, partial(unpacked, inner, name)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InvalidInput(f"{path}: it is no tar archive: {error}") from error


def _zip_members(path: str, opened: Opener) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the manifests of a zip archive, which is never unpacked."""
    # start-up time: as above
    import zipfile

    left = _limit()
    try:
        with opened() as stream, zipfile.ZipFile(stream) as archive:
            for member in archive.infolist():
                left -= member.file_size
                if left < 0:
                    raise InvalidInput(_too_long(path))
                if not member.is_dir() and member.filename.endswith(_PACKED):
                    yield f"{path}:{member.filename}", partial(_zip_member, archive, member.filename, path)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from error
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"{path}: it is no zip archive: {error}") from error


def _zip_member(archive: ZipFile, name: str, where: str) -> bytes:
    # start-up time: as above
    import zipfile
    import zlib

    try:
        with archive.open(name) as opened:
            return unpacked(opened, f"{where}:{name}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # A member with a password is a RuntimeError, one of an unknown method a NotImplementedError.
        raise InvalidInput(f"{where}:{name}: {error}") from error


def _of_mapping(one: Plain, where: str) -> Iterator[Plain]:
    kind = str(one.get("kind", ""))
    if not kind.endswith("List") or "items" not in one:
        yield one
        return
    items = one["items"]
    if items is not None and not isinstance(items, (list, tuple)):
        raise InvalidInput(f"{where or kind}.items: it must be a list, got {type(items).__name__}")
    inner = kind.removesuffix("List")
    known = {"kind": inner, "apiVersion": one.get("apiVersion", "")} if inner else {}
    for number, item in enumerate(items or ()):
        place = f"{where or kind}.items[{number}]"
        if not isinstance(item, Mapping):
            raise InvalidInput(f"{place}: it is no object, but {item!r}")
        yield from _of_mapping({**known, **item}, place)


def _of_client_object(one: Any) -> Plain:
    """Return an object of the official client as plain values, with the API's names of its fields."""
    plain: Plain = _sanitized(one) if hasattr(one, "attribute_map") else one.to_dict()
    if not isinstance(plain, Mapping):
        raise InvalidInput(f"a {type(one).__name__} is no Kubernetes object")
    if match := _CLIENT_CLASS.match(type(one).__name__):
        version, kind = f"v{match[1]}", match[2]
        in_resource_group = kind.removesuffix("List") in _RESOURCE_KINDS
        plain = {"kind": kind, "apiVersion": f"{_RESOURCE_GROUP}/{version}" if in_resource_group else version, **plain}
    return plain


def _sanitized(value: Any) -> Any:
    if hasattr(value, "attribute_map"):
        pairs = ((name, getattr(value, attribute)) for attribute, name in value.attribute_map.items())
        return {name: _sanitized(inner) for name, inner in pairs if inner is not None}
    if isinstance(value, Mapping):
        return {key: _sanitized(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sanitized(inner) for inner in value]
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def _of_version(one: Plain, gvk: GroupVersionKind, release: str) -> Decoded[KubeObject]:
    versions = _versions()[gvk.kind]
    version = versions.get(gvk.version)
    if version is None:
        raise UndecodableInput(
            f"{gvk.kind} {name_of(one)}: {gvk.api_version} is no version of it; known are {', '.join(versions)}"
        )
    decoded = _decoded(version.type, gvk, one, release)
    try:
        return Decoded(version.to_hub(decoded.object), decoded.problems)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UndecodableInput(f"{gvk.kind} {name_of(one)}: from {gvk.version}: {error}") from error


def _decoded(kind: type[KubeObject], gvk: GroupVersionKind, one: Plain, release: str) -> Decoded[KubeObject]:
    try:
        return decode_plain(kind, gvk, one, release or _release_of(gvk, one))
    except (DecodeError, msgspec.MsgspecError, TypeError) as error:
        raise UndecodableInput(f"{gvk.kind} {name_of(one)}: {error}") from error


def decode_plain(
    kind: type[KubeObject], gvk: GroupVersionKind, one: Plain, release: str = NEWEST
) -> Decoded[KubeObject]:
    """Decode plain values; those of a `WrittenObject` straight from its bytes, if they have no errors.

    Raises:
        DecodeError: some value has the wrong type or form.
    """
    if not isinstance(one, WrittenObject):
        return decode_values(kind, gvk, one, release)
    return decode_written(kind, gvk, one.body, release) or decode_values(kind, gvk, dict(one), release)


def _release_of(gvk: GroupVersionKind, one: Plain) -> str:
    """Return the release whose fields an object has: 1.34 for a taint rule that selects devices by class or expression,
    which no later release does."""
    # The first condition, because the values of other kinds need not be decoded for it.
    spec = one.get("spec") if gvk.kind == "DeviceTaintRule" else None
    selector = spec.get("deviceSelector") if isinstance(spec, Mapping) else None
    older = isinstance(selector, Mapping) and ("deviceClassName" in selector or "selectors" in selector)
    return LAST_WITH_TAINT_SELECTORS if older and gvk.version == "v1alpha3" else NEWEST


@cache
def _versions() -> Mapping[str, Mapping[str, Any]]:
    """Kind → its versions by name, newest first: those of all releases, because a dump may be of any."""
    # Only where versions are converted: the rules of the kinds would double the import of the package.
    from cathedra.kinds.resource.definitions import device_definitions
    from cathedra.releases import RELEASES, FeatureGates

    found: dict[str, dict[str, Any]] = {}
    # The newest form of a version wins. With the default release alone, dumps of older clusters would become unreadable
    # on the day on which a release that drops their version becomes the default.
    for release in reversed(RELEASES):
        for definition in device_definitions(FeatureGates.for_release(release)):
            known = found.setdefault(definition.kind, {})
            for version in definition.versions:
                known.setdefault(version.name, version)
    return found


def _fields(one: Plain) -> str:
    return f"the fields {', '.join(map(str, one))}" if one else "no fields"
