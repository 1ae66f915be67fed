"""Quantities in expressions: ``quantity("10Gi")``, comparison, sums (docs/spec/cel.md §6.6)."""

from __future__ import annotations

import re
from typing import Final

from cathedra.api.boundedcache import cached_texts
from cathedra.api.quantity import Format, Quantity, QuantityError
from cathedra.cel.library.costs import SCANNED
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import MAX_INT, MIN_INT, NO_SUCH_OVERLOAD, CELValue, Failure, Opaque

_NANO: Final = 10**9


class QuantityValue(Opaque):
    """A quantity as a value.

    ``pointer`` marks results of ``add`` and ``sub``: on the right of ``==`` Kubernetes takes those for another type.
    """

    __slots__ = ("integral", "nanos", "pointer", "quantity")
    type_name = "kubernetes.Quantity"

    def __init__(self, quantity: Quantity, *, pointer: bool = False, integral: bool = True) -> None:
        self.quantity, self.nanos, self.pointer, self.integral = quantity, quantity.nanos, pointer, integral

    @staticmethod
    def of(quantity: Quantity) -> QuantityValue:
        """Wrap an API object's quantity."""
        return QuantityValue(quantity, integral=_is_integral(str(quantity)))

    def same(self, other: CELValue) -> bool:
        """Return True if both are the same number."""
        return bool(self.nanos == other.nanos)

    def __str__(self) -> str:
        return str(self.quantity)


_BINARY_POWERS: Final = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


def _is_integral(text: str) -> bool:
    """Return True if Kubernetes keeps the number as an integer: no fraction written, few enough digits."""
    match = _WHOLE.fullmatch(text)
    if match is None:
        return False
    digits, suffix = len(match[1]), match[2]
    if suffix and suffix.endswith("i"):
        return 15 - digits - int(_BINARY_POWERS[suffix[0]] * 3 / 10) - 1 >= 0
    return digits <= 18


_WHOLE: Final = re.compile(r"[+-]?0*+([0-9]*+)((?:[KMGTPE]i|[kMGTPE])?|[eE]\+?[0-9]+)", re.ASCII)


@cached_texts(4096)
def _parsed(text: str) -> QuantityValue | Failure:
    try:
        return QuantityValue(Quantity(text), integral=_is_integral(text))
    except QuantityError as error:
        return Failure(str(error))


def parse(text: CELValue) -> CELValue:
    """Return the quantity, or a Failure if the text is none."""
    return _parsed(text)


def is_quantity(text: CELValue) -> bool:
    """Return True if the text is a quantity."""
    return not isinstance(_parsed(text), Failure)


def _both(left: CELValue, right: CELValue) -> bool:
    return isinstance(left, QuantityValue) and isinstance(right, QuantityValue)


def greater(left: CELValue, right: CELValue) -> CELValue:
    """Return True if the first is greater."""
    return left.nanos > right.nanos if _both(left, right) else NO_SUCH_OVERLOAD


def less(left: CELValue, right: CELValue) -> CELValue:
    """Return True if the first is less."""
    return left.nanos < right.nanos if _both(left, right) else NO_SUCH_OVERLOAD


def compare(left: CELValue, right: CELValue) -> CELValue:
    """Return -1, 0 or 1, as the first is less, equal or greater."""
    return (left.nanos > right.nanos) - (left.nanos < right.nanos) if _both(left, right) else NO_SUCH_OVERLOAD


def sign(value: CELValue) -> int:
    """Return -1, 0 or 1, the sign of the quantity."""
    return int(value.nanos > 0) - int(value.nanos < 0)


def _whole(value: QuantityValue) -> int | None:
    units, rest = divmod(value.nanos, _NANO)
    return int(units) if value.integral and rest == 0 and MIN_INT <= units <= MAX_INT else None


def as_integer(value: CELValue) -> CELValue:
    """Return the quantity as an integer."""
    whole = _whole(value)
    return whole if whole is not None else Failure("cannot convert value to integer")


def is_integer(value: CELValue) -> bool:
    """Return True if the quantity fits an integer."""
    return _whole(value) is not None


def as_float(value: CELValue) -> float:
    """Return the quantity as a double."""
    return float(value.nanos / _NANO)


def _other(value: CELValue) -> QuantityValue:
    if isinstance(value, QuantityValue):
        return value
    return QuantityValue(Quantity.of_value(value, Format.DECIMAL_EXPONENT))


def add(left: CELValue, right: CELValue) -> QuantityValue:
    """Evaluate add, of a quantity or an int."""
    other = _other(right)
    return QuantityValue(left.quantity + other.quantity, pointer=True, integral=left.integral and other.integral)


def subtract(left: CELValue, right: CELValue) -> QuantityValue:
    """Evaluate sub, of a quantity or an int."""
    other = _other(right)
    return QuantityValue(left.quantity - other.quantity, pointer=True, integral=left.integral and other.integral)


OVERLOADS: Final[Functions] = {
    "quantity": (declare("string_to_quantity: string -> Quantity", parse, SCANNED, precomputed=True),),
    "isQuantity": (declare("is_quantity_string: string -> bool", is_quantity, SCANNED),),
    "sign": (declare("quantity_sign: Quantity -> int", sign),),
    "isGreaterThan": (
        declare("quantity_is_greater_than: Quantity., Quantity -> bool", greater, code="({0}.nanos > {1}.nanos)"),
    ),
    "isLessThan": (
        declare("quantity_is_less_than: Quantity., Quantity -> bool", less, code="({0}.nanos < {1}.nanos)"),
    ),
    "compareTo": (declare("quantity_compare_to: Quantity., Quantity -> int", compare, order="nanos"),),
    "asApproximateFloat": (declare("quantity_get_float: Quantity. -> double", as_float),),
    "asInteger": (declare("quantity_get_int: Quantity. -> int", as_integer),),
    "isInteger": (declare("quantity_is_integer: Quantity. -> bool", is_integer),),
    "add": (
        declare("quantity_add: Quantity., Quantity -> Quantity", add),
        declare("quantity_add_int: Quantity., int -> Quantity", add),
    ),
    "sub": (
        declare("quantity_sub: Quantity., Quantity -> Quantity", subtract),
        declare("quantity_sub_int: Quantity., int -> Quantity", subtract),
    ),
}
