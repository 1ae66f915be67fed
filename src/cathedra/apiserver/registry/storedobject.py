"""An object at one revision, with its encoded form in each version, which all readers share.

Lists, gets and watches of a hundred clients share the bytes; that is why the API server is fast. They are dropped some
minutes after the write: of events, which are hardly ever read, they are a third of the memory. Those that were encoded
for a reader are dropped when others have followed: a list of 100,000 pods would otherwise keep 320 MB.

A write of another server arrives as bytes, and most readers get these bytes. So its object is decoded when it is first
read. Decoding is a quarter of the cost of such a write.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from cathedra.api.nillists import with_nil_lists
from cathedra.api.parts import parts_decoder, reader_of
from cathedra.api.protobuf import encode_message
from cathedra.api.struct import encode, replace
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.kinds.definition import VersionDefinition
from cathedra.remembering import forget_large

__all__ = ["EncodedForms", "StoredObject", "split_key"]


def split_key(key: str) -> tuple[str, str]:
    """Return the namespace and name of a table's key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


ENCODED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of forms that are kept for readers, beside those of recent writes: 20,000 pods. Encoding one takes 10 µs."""


class EncodedForms:
    """Forms of a server's objects that were encoded for readers, the oldest first. Only the last ones are kept.

    The objects themselves are not held: one with 2 MB of JSON can take 36 MiB.
    """

    def __init__(self, limit: int = ENCODED_BYTES) -> None:
        """``limit``: bytes of forms."""
        self._limit = limit
        self._entries: deque[tuple[dict[type, bytes], int]] = deque()
        self._bytes = 0

    def add(self, forms: dict[type, bytes], size: int) -> None:
        """Enter the forms of an object, of which one was encoded in ``size`` bytes. The oldest ones are emptied if
        there are too many bytes."""
        self._entries.append((forms, size))
        self._bytes += size
        while self._bytes > self._limit and len(self._entries) > 1:
            oldest, length = self._entries.popleft()
            self._bytes -= length
            oldest.clear()


class StoredObject(msgspec.Struct, eq=False, gc=False):
    """One object as it was after one write. ``key`` is ``namespace/name``, or the name in cluster scope.

    A struct, since one is made for every write, in half the time that a class of Python's takes. It cannot be part of a
    cycle, so the garbage collector need not visit it: tables and histories hold most objects of a server.
    """

    key: str
    object: Any
    """The object, as its table holds it. It is missing until it is first read if it arrived as bytes (`unread`)."""
    revision: int
    written: bytes = b""
    """The JSON of the object in its own type, if it was encoded elsewhere, as for the store; "" after it was
    dropped."""
    size: int = 0
    """Bytes of the JSON that was encoded first; 0 if none was."""
    _bodies: dict[type, bytes] | None = None
    """JSON by type that was encoded for readers."""
    _views: dict[type, Any] | None = None
    _messages: dict[type, bytes] | None = None
    _seen: dict[type, StoredObject] | None = None
    _shown: dict[type, bytes] | None = None
    _plain: type | None = None
    """The type whose JSON is known to be shown as it is: a reader need not search it again."""
    _unread: type | None = None
    """The type of the JSON that it arrived as, until it is decoded."""
    _earlier: StoredObject | None = None
    """Until it is decoded: the last state before it that was."""
    encoded: EncodedForms | None = None
    """Those of the object's table, which bound what readers encode. None if it is in no table: its forms go with it."""

    @staticmethod
    def unread(key: str, revision: int, kind: type, body: bytes, previous: StoredObject | None) -> StoredObject:
        """Return a state that arrived as the JSON of a type. When it is decoded, unchanged parts are shared with the
        last decoded state before it: comparisons by identity stay fast."""
        # A chain of undecoded states would keep every one of them in memory, so the chain has one link at most.
        earlier = previous if previous is None or previous._unread is None else previous._earlier
        made = _UnreadObject(key, None, revision, body, len(body), _unread=kind, _earlier=earlier)
        del made.object
        return made

    def __repr__(self) -> str:
        return f"StoredObject({self.key!r}, revision={self.revision})"

    def view(self, version: VersionDefinition) -> Any:
        """Return the object in a version; it is converted once."""
        # The hub version needs no conversion, and most requests use it.
        stored = self.object
        if type(stored) is version.type:
            return stored
        if self._views is None:
            self._views = {}
        found = self._views.get(version.type)
        if found is None:
            found = self._views[version.type] = version.from_hub(stored)
        return found

    def body(self, version: VersionDefinition) -> bytes:
        """Return the JSON in a version, without kind and apiVersion; it is encoded once."""
        found = self.body_in(version.type)
        if found is None:
            if self._bodies is None:
                self._bodies = {}
            found = self._bodies[version.type] = encode(self.view(version))
            self.size = self.size or len(found)
            self._count(self._bodies, len(found))
            # The encoder keeps its buffer at the size of the largest body. One object of a megabyte would hold that
            # memory for good.
            forget_large(len(found))
        return found

    def body_in(self, kind: type) -> bytes | None:
        """Return the JSON of a type; None if it was not encoded or was dropped."""
        if self.written and kind is (self._unread or type(self.object)):
            return self.written
        return None if self._bodies is None else self._bodies.get(kind)

    def shown(self, version: VersionDefinition) -> bytes:
        """Return the JSON for readers in a version: `body`, unless the release shows more or fewer fields, or a list is
        null in Go."""
        if self._plain is version.type:
            return self.body(version)
        found = None if self._shown is None else self._shown.get(version.type)
        if found is None:
            body = self.body(version)
            if version.shown is not None:
                view = self.view(version)
                shown = version.shown(view)
                body = body if shown is view else encode(shown)
            found = with_nil_lists(version.type, body)
            # Most objects have neither such fields nor such lists; they share the bytes of the body.
            if found is self.body_in(version.type):
                self._plain = version.type
            else:
                if self._shown is None:
                    self._shown = {}
                self._shown[version.type] = found
                self._count(self._shown, len(found))
        return found

    def message(self, version: VersionDefinition) -> bytes:
        """Return the bare protobuf message in a version; it is encoded once."""
        if self._messages is None:
            self._messages = {}
        found = self._messages.get(version.type)
        if found is None:
            found = self._messages[version.type] = encode_message(self.view(version))
            self._count(self._messages, len(found))
        return found

    def _count(self, forms: dict[type, bytes], size: int) -> None:
        """Count a form of ``size`` bytes that was encoded for a reader."""
        if self.encoded is not None:
            self.encoded.add(forms, size)

    def seen(self, kind: type) -> StoredObject | None:
        """Return the same state in another version, if it was kept: a webhook converts it once."""
        return self._seen.get(kind) if self._seen is not None else None

    def keep_seen(self, kind: type, entry: StoredObject) -> None:
        """Keep the state in another version."""
        if self._seen is None:
            self._seen = {}
        self._seen[kind] = entry

    def forget_forms(self) -> None:
        """Drop the encoded forms to save memory. The next reader encodes its form again."""
        # Bytes that were never decoded are the object itself, and cannot be made again.
        self._bodies = self._views = self._messages = self._shown = None
        if self._unread is None:
            self.written = b""

    def at(self, revision: int) -> StoredObject:
        """Return the same state with a later revision."""
        metadata = replace(self.object.metadata, resource_version=str(revision))
        # A new entry instead of a changed one: readers and watchers still hold the former state.
        return StoredObject(self.key, replace(self.object, metadata=metadata), revision)

    def without_managers(self) -> StoredObject:
        """Return the state without its managed fields, for clients that leave them out. It is the same one if it has
        none."""
        metadata = self.object.metadata
        if not metadata.managed_fields:
            return self
        return StoredObject(
            self.key, replace(self.object, metadata=replace(metadata, managed_fields=())), self.revision
        )


class _UnreadObject(StoredObject, eq=False, gc=False):
    """A state that arrived as bytes. It is decoded when its object is first read.

    Python calls `__getattr__` for a missing attribute alone. A property would cost all states a call for each of the
    dozen times that a write reads its object. In the base class, this method would make all attributes slow.
    """

    def __getattr__(self, name: str) -> Any:
        """Decode the object.

        Raises:
            StorageError: the bytes cannot be decoded.
        """
        if name != "object":
            raise AttributeError(name)
        return self._read()

    def _read(self) -> Any:
        kind, earlier = self._unread, self._earlier
        assert kind is not None
        body = self.written
        before = None if earlier is None else earlier.body_in(kind)
        try:
            # Without the earlier bytes there is nothing to compare parts with; they may have been dropped to save
            # memory.
            if earlier is None or before is None:
                read: Any = reader_of(kind)(body)
            else:
                read = parts_decoder(kind).later(body, earlier.object, before)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StorageError(f"the object of {self.key} cannot be read: {error}") from error
        self.object = read
        # The link to the earlier state is cut, so that its memory can be freed.
        self._unread = self._earlier = None
        return read
