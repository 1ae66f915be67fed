"""The values that expressions compute with, as plain Python objects wherever Python has the right ones.

    null bool int double string bytes   None bool int float str bytes
    uint                                UInt (an int of its own class)
    list, map                           list, dict (keys that Python would confuse are wrapped, see `encode_key`)
    timestamp, duration                 Timestamp, Duration (nanoseconds)
    type, optional                      TypeValue, Optional
    Kubernetes' types                   subclasses of `Opaque`

Python takes ``True == 1`` for true and CEL does not: values of unknown type are compared with `equal` and
`compare`. A failed computation is a value too (`Failure`), because ``&&`` and ``||`` may absorb it
(docs/spec/cel.md §3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from cathedra.cel.errors import CostLimitExceeded

CELValue: TypeAlias = Any
"""A value of one of the classes above, or a `Failure`. CEL's checker and run time know the class; Python's type checker
does not."""

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1


class Failure:
    """A computation that failed, and why."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Failure({self.text!r})"


NO_SUCH_OVERLOAD: Final = Failure("no such overload")


class UInt(int):
    """An unsigned 64-bit integer. Its class distinguishes it from an int."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class TypeValue:
    """A type as a value: ``type(1)``, ``int``. Equal when the names are."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("type", self.name))

    def __repr__(self) -> str:
        return f"TypeValue({self.name!r})"


class _Nanoseconds:
    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return self.__class__ is other.__class__ and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash((self.__class__, self.nanos))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.nanos})"


class Duration(_Nanoseconds):
    """A length of time in nanoseconds, within 64 bits."""

    __slots__ = ()


class Timestamp(_Nanoseconds):
    """A moment: nanoseconds since 1970-01-01T00:00:00Z, between the years 1 and 9999.

    ``offset`` is the zone it was written in, in seconds east of Greenwich; only its text shows it.
    """

    __slots__ = ("offset",)

    def __init__(self, nanos: int, offset: int = 0) -> None:
        super().__init__(nanos)
        self.offset = offset


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, value: CELValue, *, present: bool = True) -> None:
        self.value, self.present = value, present

    def __repr__(self) -> str:
        return f"Optional({self.value!r})" if self.present else "NONE"


NONE: Final = Optional(None, present=False)


class Opaque:
    """Base of Kubernetes' own types: only their functions read their content.

    ``type_name`` is CEL's name of the type; with ``equality_is_unit`` comparing two of them costs one unit. Python's
    ``==`` between such a value and anything of another class raises, so that compiled code notices what CEL calls
    `no such overload`.
    """

    __slots__ = ()
    type_name: str = ""
    equality_is_unit: bool = True

    def same(self, other: CELValue) -> bool:
        """Return True if it equals another value of the same class."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the size that costs are counted with."""
        return 1

    def __eq__(self, other: object) -> bool:
        outcome = equal(self, other)
        if outcome.__class__ is Failure:
            raise TypeError("no such overload")
        return bool(outcome)

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return self.type_name


class MutableList(list[CELValue]):
    """The accumulator of a comprehension that builds a list: concatenation extends it in place."""

    __slots__ = ()


class MutableMap(dict[CELValue, CELValue]):
    """The accumulator of a comprehension that builds a map."""

    __slots__ = ()


def encode_key(key: CELValue) -> CELValue:
    """Return a map key in a form in which Python keeps bool, int, uint and double apart."""
    kind = key.__class__
    # Almost all keys are strings, and these stay as they are: a map of JSON is then a map of CEL without a copy.
    if kind is str or kind is int:
        return key
    if kind is bool:
        return ("b", key)
    if kind is UInt:
        return ("u", int(key))
    if kind is float:
        return ("d", key)
    if isinstance(key, (list, dict)):
        return ("o", _Identity(key))
    return ("o", key)


def decode_key(key: CELValue) -> CELValue:
    """Decode a key of `encode_key`."""
    if key.__class__ is not tuple:
        return key
    if key[0] == "u":
        return UInt(key[1])
    return key[1].value if key[1].__class__ is _Identity else key[1]


class _Identity:
    """A list or map as a key: the same only as itself."""

    __slots__ = ("value",)

    def __init__(self, value: CELValue) -> None:
        self.value = value


def keys(mapping: dict[CELValue, CELValue]) -> Iterator[CELValue]:
    """Return the keys of a map as values."""
    return map(decode_key, list(mapping))


# None is a value of CEL, so a missing key needs a mark of its own.
_ABSENT: Final = object()


def find(mapping: dict[CELValue, CELValue], key: CELValue) -> tuple[CELValue, bool]:
    """Return the value under ``key``, found also through another numeric type of the same amount."""
    kind = key.__class__
    found = mapping.get(encode_key(key), _ABSENT)
    if found is _ABSENT and kind is not str and kind is not bool and isinstance(key, (int, float)):
        found = _find_number(mapping, key)
    if found is not _ABSENT:
        return found, True
    # Maps of attributes answer missing domains with an empty map, as Kubernetes' mapper does (docs/spec/cel.md §2).
    default = getattr(mapping, "default", None)
    return (default, True) if default is not None else (None, False)


def _find_number(mapping: dict[CELValue, CELValue], key: float) -> CELValue:
    # A double finds an integer key of the same amount, as in cel-go; NaN and fractions never do.
    if key.__class__ is float and (key != key or key in (float("inf"), float("-inf")) or key != int(key)):
        return _ABSENT
    whole = int(key)
    if key.__class__ is not int and MIN_INT <= whole <= MAX_INT and whole in mapping:
        return mapping[whole]
    if key.__class__ is not UInt and 0 <= whole <= MAX_UINT:
        return mapping.get(("u", whole), _ABSENT)
    return _ABSENT


_NAMES: Final[dict[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    MutableList: "list",
    dict: "map",
    MutableMap: "map",
    TypeValue: "type",
    Optional: "optional_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
}


def type_name(value: CELValue) -> str:
    """Return the name of a value's type at run time."""
    name = _NAMES.get(value.__class__)
    if name is not None:
        return name
    if isinstance(value, Opaque):
        return value.type_name
    return "map" if isinstance(value, dict) else "list" if isinstance(value, list) else "unknown"


# Kubernetes charges such values before it builds them, but shares their parts. Here they would use the memory and the
# time of the whole server, so they are refused by size as well.
_WALKED: Final = 1_000_000
_COMPARED: Final = 10_000_000
_HELD: Final = 1 << 22
_LONGEST: Final = 1 << 26


def walkable(value: CELValue) -> CELValue:
    """``value``, unless walking through it would take forever: a list may hold one list many times over, and that
    another one.

    Raises:
        CostLimitExceeded: it would.
    """
    _weight(value)
    return value


def comparable(value: CELValue, times: int) -> None:
    """Raise an error if comparing ``value`` with that many others would take too long.

    Raises:
        CostLimitExceeded: it would.
    """
    if isinstance(value, (list, dict, Optional)) and _weight(value) * times > _COMPARED:
        raise CostLimitExceeded


def _weight(value: CELValue) -> int:
    # No recursion: users nest values as deeply as their expressions, and Python's stack ends long before that.
    pending, count = [value], 0
    while pending:
        one = pending.pop()
        if one.__class__ is Optional:
            pending.append(one.value)
            continue
        if not isinstance(one, (list, dict)):
            continue
        count += len(one)
        if count > _WALKED:
            raise CostLimitExceeded
        inner = one if isinstance(one, list) else one.values()
        pending.extend(item for item in inner if isinstance(item, (list, dict, Optional)))
    return count


def holdable(amount: int, kind: type) -> None:
    """Refuse to build a list or text that no machine has room for; Kubernetes shares the parts, and counts.

    Raises:
        CostLimitExceeded: it is too large.
    """
    if amount > (_HELD if issubclass(kind, list) else _LONGEST):
        raise CostLimitExceeded


_NUMBERS: Final = frozenset((int, UInt, float))


def equal(left: CELValue, right: CELValue) -> bool | Failure:
    """Evaluate CEL's ``==``: false across types, numbers by amount, `no such overload` where a Kubernetes type is on
    the left."""
    if left is None or right is None:
        return left is right
    return _equal_values(left, right)


def _equal_values(left: CELValue, right: CELValue) -> bool | Failure:
    kind, other = left.__class__, right.__class__
    if kind in _NUMBERS:
        if kind is not other and (kind is float or other is float):
            return other in _NUMBERS and float(left) == float(right)
        return other in _NUMBERS and bool(left == right)
    if kind is str or kind is bool or kind is bytes:
        return other is kind and bool(left == right)
    if isinstance(left, Opaque):
        if other is not kind:
            return NO_SUCH_OVERLOAD
        # Go's equality fails if the right side is a pointer to the type, which values from objects are.
        if getattr(right, "pointer", False):
            return NO_SUCH_OVERLOAD
        return left.same(right)
    # Checked first: two values that share parts many times over would be compared for hours.
    if isinstance(left, (list, dict)):
        walkable(left)
        return _equal_parts(left, right)
    if kind is Optional:
        return _equal_optionals(left, right)
    if left is None or right is None:
        return left is right
    return other is kind and bool(left == right)


def _equal_optionals(left: CELValue, right: CELValue) -> bool | Failure:
    while left.__class__ is Optional:
        if right.__class__ is not Optional:
            return False
        if not left.present or not right.present:
            return bool(left.present == right.present)
        left, right = left.value, right.value
    return _equal_values(left, right)


def _equal_parts(left: CELValue, right: CELValue) -> bool:
    """Compare lists and maps, whatever their nesting. Parts that cannot be compared count as equal."""
    pairs = [(left, right)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, list):
            if not isinstance(right, list) or len(left) != len(right):
                return False
            pairs.extend(zip(reversed(left), reversed(right), strict=True))
        elif isinstance(left, dict):
            if not isinstance(right, dict) or len(left) != len(right):
                return False
            for key, value in left.items():
                other, found = find(right, decode_key(key))
                if not found:
                    return False
                pairs.append((value, other))
        elif left.__class__ is Optional and right.__class__ is Optional and left.present and right.present:
            pairs.append((left.value, right.value))
        # cel-go treats an error between two parts as equality, so only a plain False ends the comparison.
        elif equal(left, right) is False:
            return False
    return True


def contains(values: list[CELValue], wanted: CELValue) -> bool:
    """Return True if ``wanted in values``."""
    comparable(wanted, len(values))
    # An error of one comparison does not end the search, as in cel-go.
    return any(_equal_values(wanted, value) is True for value in values)


_ORDERED: Final = frozenset((int, UInt, float, bool, str, bytes, Duration, Timestamp))


def compare(left: CELValue, right: CELValue) -> int | Failure:
    """Return -1, 0 or 1, or a failure for values that have no order."""
    kind, other = left.__class__, right.__class__
    if kind in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:
            return Failure("NaN values cannot be ordered")
        # cel-go compares as doubles once one side is a double: large integers lose digits, and that must be visible
        # here.
        if kind is not other and (kind is float or other is float):
            left, right = float(left), float(right)
        return int(left > right) - int(left < right)
    if kind is not other or kind not in _ORDERED:
        return NO_SUCH_OVERLOAD
    if kind is Duration or kind is Timestamp:
        left, right = left.nanos, right.nanos
    return int(left > right) - int(left < right)


def text(value: CELValue) -> str:
    """Return a value as error texts show it."""
    if not isinstance(value, (list, dict, Optional)):
        return _text_of_scalar(value)
    walkable(value)
    pieces: list[str] = []
    pending: list[CELValue] = [value]
    while pending:
        one = pending.pop()
        kind = one.__class__
        if kind is _Literally:
            pieces.append(one)
        elif isinstance(one, list):
            pending += _bracketed("[", [[item] for item in one], "]")
        elif isinstance(one, dict):
            entries = [[decode_key(key), _Literally(": "), item] for key, item in one.items()]
            pending += _bracketed("{", entries, "}")
        elif kind is Optional:
            pending += _bracketed("optional(", [[one.value]], ")") if one.present else [_Literally("optional.none()")]
        else:
            pieces.append(_text_of_scalar(one))
    return "".join(pieces)


class _Literally(str):
    """A piece of text, where strings are values."""

    __slots__ = ()


def _bracketed(opening: str, parts: list[list[CELValue]], closing: str) -> list[CELValue]:
    """Brackets around parts, last piece first."""
    pieces: list[CELValue] = [_Literally(closing)]
    # The pieces are a stack: the last one that is pushed is written first.
    for position in range(len(parts) - 1, -1, -1):
        pieces += reversed(parts[position])
        if position:
            pieces.append(_Literally(", "))
    pieces.append(_Literally(opening))
    return pieces


def _text_of_scalar(value: CELValue) -> str:
    kind = value.__class__
    if kind is str:
        return str(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return go_float(value)
    if kind is UInt:
        return str(int(value))
    if kind is TypeValue:
        return str(value.name)
    if kind is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    return str(value)


def go_float(value: float) -> str:
    """Return a double as Go's ``%v`` writes it: shortest digits, exponent from 1e21 on and below 1e-4."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    # The bounds at which Go's %v changes to an exponent; Python's repr changes at 1e16.
    if 1e-4 <= abs(value) < 1e21:
        shown = format(value, "f") if "e" in repr(value) else repr(value)
        if "e" in repr(value):
            shown = _expand(repr(value))
        return shown[:-2] if shown.endswith(".0") else shown
    return scientific(value)


def scientific(value: float) -> str:
    """Return the shortest digits with an exponent of at least two places, as Go writes them."""
    shown = repr(value)
    mantissa, _, exponent = shown.partition("e")
    if not exponent:
        mantissa, exponent = _scientific(shown)
    power = int(exponent)
    return f"{mantissa.removesuffix('.0')}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _expand(shown: str) -> str:
    mantissa, _, exponent = shown.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    power = int(exponent)
    if power >= 0:
        fraction = fraction.ljust(power, "0")
        return f"{sign}{whole}{fraction[:power]}" + (f".{fraction[power:]}" if fraction[power:] else "")
    return f"{sign}0.{'0' * (-power - 1)}{whole}{fraction}"


def _scientific(shown: str) -> tuple[str, str]:
    sign = "-" if shown.startswith("-") else ""
    whole, _, fraction = shown.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    power = len(whole) - 1 if whole != "0" else -(len(fraction) - len(fraction.lstrip("0")) + 1)
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}" + (f".{digits[1:]}" if len(digits) > 1 else ""), str(power)
