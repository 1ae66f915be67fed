"""Semantic versions: ``semver("1.2.3")``, precedence, and the normalisation of sloppy spellings
(docs/spec/cel.md §6.7)."""

from __future__ import annotations

import re
from typing import Final

from cathedra.api.boundedcache import cached_texts
from cathedra.api.goquote import go_quote
from cathedra.cel.library.costs import SCANNED
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import MAX_UINT, CELValue, Failure, Opaque

_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+", re.ASCII)


class SemverError(ValueError):
    """A text is no semantic version; the wording is Kubernetes'."""


class Semver(Opaque):
    """A semantic version. Equality is that of precedence: build metadata do not count."""

    __slots__ = ("build", "core", "order", "pre")
    type_name = "kubernetes.Semver"

    def __init__(self, core: tuple[int, int, int], pre: tuple[str, ...], build: tuple[str, ...]) -> None:
        self.core, self.pre, self.build = core, pre, build
        self.order: CELValue = (*core, not pre, tuple(_rank(part) for part in pre))

    @staticmethod
    def parse(text: str) -> Semver:
        """Parse a version in strict form.

        Raises:
            SemverError: it is malformed.
        """
        return _strict(text)

    def same(self, other: CELValue) -> bool:
        """Return True if both have the same precedence."""
        return bool(self.order == other.order)

    def __str__(self) -> str:
        shown = ".".join(map(str, self.core))
        if self.pre:
            shown += "-" + ".".join(self.pre)
        return shown + ("+" + ".".join(self.build) if self.build else "")


def _rank(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


@cached_texts(4096)
def _strict(text: str) -> Semver:
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    names = ("major", "minor")
    core = [_number(part, name) for part, name in zip(parts, names, strict=False)]
    patch, pre, build = parts[2], [], []
    if "+" in patch:
        patch, _, tail = patch.partition("+")
        build = tail.split(".")
    if "-" in patch:
        patch, _, tail = patch.partition("-")
        pre = tail.split(".")
    core.append(_number(patch, "patch"))
    for part in pre:
        _check_prerelease(part)
    for part in build:
        if not part:
            raise SemverError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(part):
            raise SemverError(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return Semver((core[0], core[1], core[2]), tuple(pre), tuple(build))


def _number(text: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        if not text:
            raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
        raise SemverError(f"Invalid character(s) found in {name} number {go_quote(text)}")
    if len(text) > 1 and text.startswith("0"):
        word = name.capitalize()
        raise SemverError(f'{word} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise SemverError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _check_prerelease(part: str) -> None:
    if not part:
        raise SemverError("Prerelease is empty")
    if _DIGITS.fullmatch(part):
        if len(part) > 1 and part.startswith("0"):
            raise SemverError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
        if len(part) > 20 or int(part) > MAX_UINT:
            raise SemverError(f'strconv.ParseUint: parsing "{part}": value out of range')
        return
    if not _IDENTIFIER.fullmatch(part):
        raise SemverError(f"Invalid character(s) found in prerelease {go_quote(part)}")


def _normalized(text: str) -> Semver:
    parts = text.removeprefix("v").split(".", 2)
    for position, part in enumerate(parts):
        if len(part.encode("utf-8", "surrogatepass")) > 1:
            bare = part.lstrip("0")
            parts[position] = bare if bare[:1].isascii() and bare[:1].isdigit() else "0" + bare
    if len(parts) < 3:
        if any(sign in parts[-1] for sign in "+-"):
            raise SemverError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return _strict(".".join(parts))


def parse(text: CELValue, normalize: CELValue = False) -> CELValue:
    """Return the version, or a Failure if the text is none."""
    try:
        return _normalized(text) if normalize else _strict(text)
    except SemverError as error:
        return Failure(str(error))


def completed(text: str) -> str:
    """Return the version that a text like ``v550.09`` stands for, in the strict form; "" if it stands for none."""
    try:
        return str(_normalized(text))
    except SemverError:
        return ""


def is_semver(text: CELValue, normalize: CELValue = False) -> bool:
    """Return True if the text is a version."""
    return not isinstance(parse(text, normalize), Failure)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


OVERLOADS: Final[Functions] = {
    "semver": (
        declare("string_to_semver: string -> Semver", parse, SCANNED, precomputed=True),
        declare("string_bool_to_semver: string, bool -> Semver", parse, SCANNED),
    ),
    "isSemver": (
        declare("is_semver_string: string -> bool", is_semver, SCANNED),
        declare("is_semver_string_bool: string, bool -> bool", is_semver, SCANNED),
    ),
    "isGreaterThan": (
        declare(
            "semver_is_greater_than: Semver., Semver -> bool",
            lambda a, b: a.order > b.order,
            code="({0}.order > {1}.order)",
        ),
    ),
    "isLessThan": (
        declare(
            "semver_is_less_than: Semver., Semver -> bool",
            lambda a, b: a.order < b.order,
            code="({0}.order < {1}.order)",
        ),
    ),
    "compareTo": (
        declare(
            "semver_compare_to: Semver., Semver -> int",
            lambda a, b: (a.order > b.order) - (a.order < b.order),
            order="order",
        ),
    ),
    "major": (declare("semver_major: Semver. -> int", lambda v: _signed(v.core[0])),),
    "minor": (declare("semver_minor: Semver. -> int", lambda v: _signed(v.core[1])),),
    "patch": (declare("semver_patch: Semver. -> int", lambda v: _signed(v.core[2])),),
}
