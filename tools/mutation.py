"""Mutations of inputs: of bytes, of JSON trees and of numbers, with a preference for limits.

Everything is drawn from the generator that is passed in, so a seed repeats a run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["mutated", "mutated_tree"]

TOKENS: Final = (
    b"{", b"}", b"[", b"]", b":", b",", b'"', b"null", b"true", b"false", b"0", b"-1", b"1e999", b"NaN", b"-0.0",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"1E400", b"0x10",
    b"\\u0000", b"\\ud800", b"\xff\xfe", b"\x00", b"\n", b"\r\n", b"\t", b"/", b"//", b"..", b"%00", b"%2f", b"%ff",
    b"?", b"&", b"=", b"#", b"~0", b"~1", b"/-",
    b"*", b"&a", b"*a", b"<<: ", b"- ", b"---\n", b"!!binary ",
    b"!!python/object:os.system ",
    b"metadata", b"name", b"namespace", b"finalizers", b"ownerReferences", b"managedFields", b"f:", b"k:{", b"v:",
    b"resourceVersion", b"apiVersion", b"kind", b"$patch", b"$setElementOrder/", b"$deleteFromPrimitiveList/",
    b"$retainKeys",
    b"x-kubernetes-", b"watch=True", b"1Ki", b"1e3", b"100m", b"10Ei", b"+5", b"''", "é\U0001f600".encode(),
)  # fmt: skip
NUMBERS: Final = (
    b"0", b"-1", b"1", b"2147483648", b"-2147483649", b"9223372036854775807", b"9223372036854775808", b"1e999", b"0.1",
    b"-0", b"00", b"1e-999", b"340282366920938463463374607431768211456",
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**40, 0.5, 1e308, -0.0, "", "a", "x" * 300,
    "\x00", "\ud800", "1Gi", "-1", "1e3", "0001-01-01T00:00:00Z", "../..", "a/b", "A", "é", "*", [], {}, [[]], [None],
    [{}],
    {"": None}, {"a": {"b": []}}, [1, "a", None], {"$patch": "delete"}, {"$patch": []}, {"f:a": {}}, {".": {}},
)  # fmt: skip
LONG: Final = 100_000
LARGEST: Final = 3 << 20
"""Bytes of a request body that the API server takes at most."""
DEPTHS: Final = (20, 300, 1_100, 9_000, 20_000)


def mutated(data: bytes, others: Sequence[bytes], drawn: random.Random) -> bytes:
    """``data`` changed in one to a few places; JSON mostly stays JSON."""
    if drawn.random() < 0.6:
        tree = _tree(data)
        if tree is not None:
            for _ in range(drawn.choice((1, 1, 1, 2, 4))):
                tree = mutated_tree(tree, drawn)
            return json.dumps(tree, ensure_ascii=drawn.random() < 0.8).encode("utf-8", "surrogatepass")[:LARGEST]
    for _ in range(drawn.choice((1, 1, 2, 3, 8))):
        data = drawn.choice(_BYTES)(data, others, drawn)[:LONG]
    return data


def mutated_tree(tree: Any, drawn: random.Random) -> Any:
    """A JSON tree with one node replaced, removed, doubled, renamed or wrapped."""
    if isinstance(tree, dict) and tree and drawn.random() < 0.85:
        key = drawn.choice(list(tree))
        return _in_object(tree, key, drawn)
    if isinstance(tree, list) and tree and drawn.random() < 0.85:
        index = drawn.randrange(len(tree))
        if drawn.random() < 0.15:
            return [*tree, *([tree[index]] * drawn.choice((1, 2, 40)))]
        if drawn.random() < 0.1:
            return tree[:index] + tree[index + 1 :]
        return [*tree[:index], mutated_tree(tree[index], drawn), *tree[index + 1 :]]
    return _leaf(tree, drawn)


def _in_object(tree: dict[str, Any], key: str, drawn: random.Random) -> dict[str, Any]:
    choice = drawn.random()
    if choice < 0.1:
        return {name: value for name, value in tree.items() if name != key}
    if choice < 0.2:
        return {**tree, drawn.choice(list(tree)): tree[key]}
    if choice < 0.27:
        return {**tree, str(drawn.choice(VALUES)): tree[key]}
    return {**tree, key: mutated_tree(tree[key], drawn)}


def _leaf(value: Any, drawn: random.Random) -> Any:
    choice = drawn.random()
    if choice < 0.04:
        for _ in range(drawn.choice((2, 30, 300))):
            value = {"a": value} if drawn.random() < 0.5 else [value]
        return value
    if isinstance(value, str) and value and choice < 0.4:
        place = drawn.randrange(len(value) + 1)
        token = drawn.choice(TOKENS).decode("utf-8", "replace")
        return value[:place] + token + value[place + drawn.choice((0, 1, 5)) :]
    if isinstance(value, str) and choice < 0.45:
        return (value * drawn.choice((2, 64, 3_000)))[:LARGEST] if len(value) < LONG else value
    return drawn.choice(VALUES)


def _tree(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _flip(data: bytes, _: Sequence[bytes], drawn: random.Random) -> bytes:
    if not data:
        return drawn.randbytes(4)
    place = drawn.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << drawn.randrange(8))]) + data[place + 1 :]


def _insert(data: bytes, _: Sequence[bytes], drawn: random.Random) -> bytes:
    place = drawn.randrange(len(data) + 1)
    return data[:place] + drawn.choice(TOKENS) + data[place:]


def _cut(data: bytes, _: Sequence[bytes], drawn: random.Random) -> bytes:
    first, last = sorted((drawn.randrange(len(data) + 1), drawn.randrange(len(data) + 1)))
    return data[:first] + data[last:]


def _end(data: bytes, _: Sequence[bytes], drawn: random.Random) -> bytes:
    return data[: drawn.randrange(len(data) + 1)]


def _splice(data: bytes, others: Sequence[bytes], drawn: random.Random) -> bytes:
    other = drawn.choice(others)
    return data[: drawn.randrange(len(data) + 1)] + other[drawn.randrange(len(other) + 1) :]


def _repeat(data: bytes, _: Sequence[bytes], drawn: random.Random) -> bytes:
    first = drawn.randrange(len(data) + 1)
    piece = data[first : first + drawn.choice((1, 3, 20, 200))]
    return data[:first] + piece * drawn.choice((2, 10, 1_000)) + data[first:]


def _number(data: bytes, _: Sequence[bytes], drawn: random.Random) -> bytes:
    places = [place for place, byte in enumerate(data[:20_000]) if 48 <= byte <= 57]
    if not places:
        return data
    place = drawn.choice(places)
    number = b"9" * 5_000 if drawn.random() < 0.1 else drawn.choice(NUMBERS)
    return data[:place] + number + data[place + 1 :]


def _deep(data: bytes, _: Sequence[bytes], drawn: random.Random) -> bytes:
    opening, closing = drawn.choice(
        ((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"- ", b""), (b"a: {", b"}"), (b"!", b""))
    )
    depth = drawn.choice(DEPTHS)
    place = drawn.randrange(len(data) + 1)
    closed = closing * depth if drawn.random() < 0.6 else b""
    return data[:place] + opening * depth + closed + data[place:]


def _noise(_: bytes, __: Sequence[bytes], drawn: random.Random) -> bytes:
    return drawn.randbytes(drawn.choice((1, 4, 16, 300)))


Mutation = Callable[[bytes, Sequence[bytes], random.Random], bytes]
_BYTES: Final[tuple[Mutation, ...]] = (
    _flip, _flip, _flip, _insert, _insert, _insert, _cut, _end, _splice, _splice, _repeat, _number, _number,
    _deep, _noise,
)  # fmt: skip
