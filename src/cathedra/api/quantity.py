"""Exact quantities: «500m», «64Gi», «1e3».

Capacities of devices, requests of containers and limits of namespaces are all written this way, and two spellings of
one amount must be equal, compare and print exactly as in Kubernetes. An amount is a whole number of nano-units, which
is precisely what Kubernetes keeps: finer fractions are rounded up (docs/spec/api.md §2.0).
"""

from __future__ import annotations

import enum
import re
from functools import total_ordering
from typing import Final

from cathedra.api.boundedcache import cached_texts

__all__ = ["Format", "Quantity", "QuantityError"]

NANO: Final = 10**9
MAX_NANOS: Final = (2**63 - 1) * NANO
_PAST_SUFFIXES: Final = 10**21 * NANO
"""The smallest amount that no decimal suffix may fit."""


class QuantityError(ValueError):
    """A text is no quantity. The wording is Kubernetes' own."""


class Format(enum.Enum):
    """Suffixes with which a quantity was written and is printed."""

    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"


_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES: Final = {power: name for name, power in _DECIMAL.items()}
_BINARY_NAMES: Final = {0: ""} | {power: name for name, power in _BINARY.items()}

_SHAPE: Final = re.compile(
    # No part backtracks: otherwise thousands of zeros in front of a wrong letter cost minutes.
    r"(?P<sign>[+-]?)0*+(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?(?P<suffix>[eEinumkKMGTP]*+[+-]?[0-9]*+)",
    re.ASCII,
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,9})", re.ASCII)
_LARGEST_EXPONENT: Final = 4000
"""Beyond any amount that means something; keeps a hostile text from growing a number of millions of digits."""

_WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"


@total_ordering
class Quantity:
    """An amount, exact to a nano-unit, with its `Format`.

    Immutable. Equality, order and hash depend on the amount alone: ``Quantity("1Gi") == Quantity("1073741824")``.
    """

    __slots__ = ("_text", "format", "nanos")

    nanos: int
    format: Format
    _text: str | None

    def __init__(self, text: str | int) -> None:
        """Parse ``text``.

        Raises:
            QuantityError: it is not of a quantity's form.
        """
        nanos, form, kept = _parse(text if isinstance(text, str) else str(text))
        object.__setattr__(self, "nanos", nanos)
        object.__setattr__(self, "format", form)
        object.__setattr__(self, "_text", kept)

    @staticmethod
    def parse(text: str) -> Quantity:
        """Parse a quantity. Equal texts may share one object.

        Raises:
            QuantityError: it is not of a quantity's form.
        """
        return _shared(text)

    @staticmethod
    def of_nanos(nanos: int, form: Format = Format.DECIMAL_SI) -> Quantity:
        """Return an amount given in nano-units."""
        made = object.__new__(Quantity)
        object.__setattr__(made, "nanos", nanos)
        object.__setattr__(made, "format", form)
        object.__setattr__(made, "_text", None)
        return made

    @staticmethod
    def of_value(value: int, form: Format = Format.DECIMAL_SI) -> Quantity:
        """Return an amount given in whole units."""
        return Quantity.of_nanos(value * NANO, form)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Quantity is immutable: {name} cannot be set")

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Quantity, (str(self),))

    # --- amounts

    def value(self) -> int:
        """Return whole units, rounded away from zero, as Kubernetes' ``Value()``."""
        return _away_from_zero(self.nanos, NANO)

    def milli_value(self) -> int:
        """Return thousandths, rounded away from zero, as Kubernetes' ``MilliValue()``."""
        return _away_from_zero(self.nanos, 10**6)

    def is_zero(self) -> bool:
        """Return True if the amount is exactly zero."""
        return self.nanos == 0

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.nanos > 0) - (self.nanos < 0)

    # --- algebra

    def __add__(self, other: Quantity) -> Quantity:
        """Return the sum; a zero on the left takes the format of the right, as in Kubernetes."""
        form = other.format if self.nanos == 0 else self.format
        return Quantity.of_nanos(self.nanos + other.nanos, form)

    def __sub__(self, other: Quantity) -> Quantity:
        """Return the difference; a zero on the left takes the format of the right, as in Kubernetes."""
        form = other.format if self.nanos == 0 else self.format
        return Quantity.of_nanos(self.nanos - other.nanos, form)

    def __mul__(self, factor: int) -> Quantity:
        """Return the amount multiplied by ``factor``, in the same format."""
        return Quantity.of_nanos(self.nanos * factor, self.format)

    def __neg__(self) -> Quantity:
        return Quantity.of_nanos(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    # --- text

    @property
    def text(self) -> str:
        """The quantity as the API writes it; made once."""
        text = self._text
        if text is None:
            text = _canonical(self.nanos, self.format)
            object.__setattr__(self, "_text", text)
        return text

    written = text
    """As JSON shows it; scalars have this attribute for the encoder (`cathedra.api.struct`)."""

    @property
    def as_read(self) -> Quantity:
        """The quantity that a reader of ``text`` gets.

        It is another one if a binary amount has no binary suffix: 5000 bytes are written as ``5000`` and read as a
        decimal amount, which is written as ``5k`` from then on.
        """
        if self.format is not Format.BINARY_SI or self.text.endswith("i"):
            return self
        return Quantity.parse(self.text)

    @property
    def without_large_suffix(self) -> Quantity:
        """The quantity that a release before `LARGE_QUANTITIES_KEPT` has once it has written it: ``1000E`` is ``1``."""
        if -_PAST_SUFFIXES < self.nanos < _PAST_SUFFIXES or self.format is not Format.DECIMAL_SI:
            return self
        return Quantity.parse(self.text.partition("e")[0])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def _away_from_zero(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _parse(text: str) -> tuple[int, Format, str | None]:
    """Nano-units, format, and the text itself where Kubernetes prints it back unchanged."""
    shape = _SHAPE.fullmatch(text) if text else None
    if shape is None:
        raise QuantityError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = shape["sign"], shape["whole"] or "0", shape["fraction"] or "", shape["suffix"]
    form, exponent = _suffix(suffix)
    try:
        digits = int(whole + fraction)
    except ValueError as error:
        raise QuantityError(_WRONG_NUMBER) from error
    if form is Format.BINARY_SI:
        nanos = _at_scale(digits << exponent, -len(fraction))
        if not _is_short_binary(whole, fraction, exponent):
            nanos = min(nanos, MAX_NANOS)
            form = Format.DECIMAL_SI if 0 < nanos < NANO else form
            kept = None
        else:
            kept = text if digits & 7 else None
    else:
        scale = exponent - len(fraction)
        nanos = _at_scale(digits, scale)
        kept = text if _is_kept_decimal(whole + fraction, scale) else None
    return (-nanos if sign == "-" else nanos), form, kept


def _suffix(suffix: str) -> tuple[Format, int]:
    if suffix in _DECIMAL:
        return Format.DECIMAL_SI, _DECIMAL[suffix]
    if suffix in _BINARY:
        return Format.BINARY_SI, _BINARY[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None or abs(int(exponent[1])) > _LARGEST_EXPONENT:
        raise QuantityError(_WRONG_SUFFIX)
    return Format.DECIMAL_EXPONENT, int(exponent[1])


def _is_short_binary(whole: str, fraction: str, exponent: int) -> bool:
    """Return True if Kubernetes reads it as an integer, without the cap."""
    return not fraction and 15 - len(whole) - exponent * 3 // 10 - 1 >= 0


def _is_kept_decimal(digits: str, scale: int) -> bool:
    return (
        len(digits) <= 18
        and scale >= -9
        and scale % 3 == 0
        and not digits.endswith("000")
        and not digits.startswith("0")
    )


def _at_scale(digits: int, power: int) -> int:
    """Nano-units of ``digits × 10^power``, rounded up."""
    power += 9
    if power >= 0:
        return digits * int(10**power)
    return -(-digits // int(10**-power))


def _canonical(nanos: int, form: Format) -> str:
    """Return the canonical text of an amount in nano-units: no fraction, the largest suffix that keeps it exact
    (docs/spec/api.md §2.0)."""
    if nanos == 0:
        return "0"
    if form is Format.BINARY_SI and not (abs(nanos) < 1024 * NANO or nanos % NANO):
        digits, power = _without_factors(nanos // NANO, 1024)
        if power * 10 in _BINARY_NAMES:
            return f"{digits}{_BINARY_NAMES[power * 10]}"
        form = Format.DECIMAL_EXPONENT
    digits, power = _without_factors(nanos, 1000)
    power = power * 3 - 9
    if form is not Format.DECIMAL_EXPONENT and power in _DECIMAL_NAMES:
        return f"{digits}{_DECIMAL_NAMES[power]}"
    # Amounts past the last suffix have an exponent (kubernetes/kubernetes#140459).
    return f"{digits}e{power}" if power else str(digits)


def _without_factors(amount: int, factor: int) -> tuple[int, int]:
    times = 0
    while amount % factor == 0:
        amount //= factor
        times += 1
    return amount, times


@cached_texts(8192)
def _shared(text: str) -> Quantity:
    return Quantity(text)
