"""Device selectors, compiled once and evaluated once per signature (docs/spec/allocation.md §7).

The result of a CEL expression depends on the signature of the device alone, so it holds on every node and for every
pod. Most expressions read two or three attributes. If that can be derived from their text, devices with equal values of
those share a result even when serial numbers make their signatures different. An error is a result too: it is raised
only when the search reaches that device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from cathedra.allocation.errors import DeviceSelectorError
from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import Caches, CacheSlot
from cathedra.allocation.supply.devices import DeviceRecord, Projection, Signature
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.remembering import remembered

if TYPE_CHECKING:
    from cathedra.cel.device import DeviceView
    from cathedra.cel.selector import CompiledSelector


class SelectorFailure(msgspec.Struct, frozen=True):
    """A selector failed: which one of the list, while compiling or running, and CEL's text."""

    index: int
    compiling: bool
    cause: str


Verdict: TypeAlias = bool | SelectorFailure
Interrupted: TypeAlias = Callable[[], bool]
"""Called often while selectors are compiled and evaluated; raises to stop them."""
_DEVICE_VIEWS: Final[CacheSlot[list[DeviceView]]] = CacheSlot("what CEL sees", list)
"""Of each signature one, once it is made."""


def cel_device(signature: Signature) -> DeviceView:
    """Return the value of the variable ``device`` in CEL."""
    # start-up time: CEL comes with the first selector
    from cathedra.cel.device import DeviceView

    cache = signature.caches.of(_DEVICE_VIEWS)
    if not cache:
        cache.append(
            DeviceView.of(signature.driver, signature.allow_multiple, signature.attributes, signature.capacity)
        )
    return cache[0]


class SelectorList:
    """A list of selectors, evaluated in order until one is false."""

    __slots__ = ("_by_projection", "_by_signature", "_projection", "_selectors", "caches")

    LIMIT: Final = 200_000
    """Largest number of cached results."""

    def __init__(self, selectors: Sequence[CompiledSelector | SelectorFailure], texts: Sequence[str]) -> None:
        self._selectors = tuple(selectors)
        self._by_signature: dict[int, Verdict] = {}
        self.caches = Caches()
        """Caches of values that are derived from these selectors, kept for many pods."""
        self._by_projection: dict[Any, Verdict] = {}
        projections = [_projection(text) for text in texts]
        seen: set[str] = set().union(*(one for one in projections if one))
        self._projection: Projection | None = None if None in projections else tuple(sorted(seen))

    def verdict(self, signature: Signature, interrupted: Interrupted | None = None) -> Verdict:
        """Return True, False, or the failure of the first selector that fails. An exception that ``interrupted`` raises
        ends the evaluation."""
        known = self._by_signature.get(signature.number)
        if known is not None:
            return known
        if len(self._by_signature) >= self.LIMIT:
            self._by_signature.clear()
            self._by_projection.clear()
        verdict = self._by_signature[signature.number] = self._projected(signature, interrupted)
        return verdict

    @property
    def projection(self) -> Projection | None:
        """Attributes that the selectors read by name; None if the text does not determine them."""
        return self._projection

    def _projected(self, signature: Signature, interrupted: Interrupted | None) -> Verdict:
        if self._projection is None:
            return self.evaluate(signature, interrupted)
        key = signature.seen(self._projection)
        known = self._by_projection.get(key)
        if known is None:
            known = self._by_projection[key] = self.evaluate(signature, interrupted)
        return known

    def evaluate(self, signature: Signature, interrupted: Interrupted | None = None) -> Verdict:
        """Evaluate the selectors in CEL, without any cache."""
        for index, selector in enumerate(self._selectors):
            if isinstance(selector, SelectorFailure):
                return SelectorFailure(index, selector.compiling, selector.cause)
            try:
                if not selector.matches(cel_device(signature), interrupted):
                    return False
            except EvaluationError as error:
                return SelectorFailure(index, False, str(error))
        return True

    def each(self, signature: Signature, interrupted: Interrupted | None = None) -> list[Verdict]:
        """Return the result of every selector by itself, for explanations."""
        return [SelectorList([selector], [""]).evaluate(signature, interrupted) for selector in self._selectors]


# A name, not a method: «.exists(» may read every attribute.
_LOOK: Final = re.compile(
    r"""device\.(attributes|capacity)\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]\s*\.\s*\??\s*([A-Za-z_][A-Za-z_0-9]*)\b(?!\s*\()"""
)
_MEMBER: Final = re.compile(
    r"""["']([A-Za-z_][A-Za-z_0-9]*)["']\s+in\s+device\.(attributes|capacity)\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\](?!\s*[.\[])"""
)
_HARMLESS: Final = re.compile(r"device\.(driver|allowMultipleAllocations)\b")


@remembered("allocation.checks.selectors.projection", size=4096)
def _projection(text: str) -> frozenset[str] | None:
    """Return the attributes that an expression can read; None if the text does not determine them."""
    if not text:
        return None
    rest = _HARMLESS.sub(" ", _MEMBER.sub(" ", _LOOK.sub(" ", text)))
    if "device" in rest:
        return None
    names = {f"{look[2] or look[3] or ''}/{look[4]}" for look in _LOOK.finditer(text) if look[1] == "attributes"}
    names |= {f"{look[3] or look[4] or ''}/{look[1]}" for look in _MEMBER.finditer(text) if look[2] == "attributes"}
    return frozenset(names)


class SelectorCache:
    """Compiled selectors and their verdicts, as long as the inventory lives. The least recently used are dropped."""

    __slots__ = ("_compiled", "_known")

    LIMIT: Final = 512

    def __init__(self) -> None:
        self._known: dict[Any, SelectorList] = {}
        self._compiled: dict[Any, CompiledSelector | SelectorFailure] = {}

    def of(
        self, expressions: Sequence[str], features: Features, interrupted: Interrupted | None = None
    ) -> SelectorList:
        """Return the compiled list of ``expressions``. An exception that ``interrupted`` raises ends the
        compilation."""
        mode = (
            features.consumable_capacity,
            features.list_type_attributes,
            features.behaviour.lists_are_iterable_without_gate,
        )
        key = (tuple(expressions), mode)
        known = self._known.pop(key, None)
        if known is None:
            if len(self._known) >= self.LIMIT:
                del self._known[next(iter(self._known))]
            known = SelectorList(
                [self._compile(text, features, mode, interrupted) for text in expressions], expressions
            )
        self._known[key] = known
        return known

    def take(self, other: SelectorCache) -> None:
        """Take over the selectors that ``other`` has compiled, also those beyond the limit, until another one is
        compiled. May be called in any thread: it is one assignment."""
        self._compiled = self._compiled | other._compiled

    def _compile(
        self, expression: str, features: Features, mode: object, interrupted: Interrupted | None
    ) -> CompiledSelector | SelectorFailure:
        key = (expression, mode)
        if key not in self._compiled:
            if interrupted is not None:
                interrupted()
            while len(self._compiled) >= self.LIMIT:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[key] = _compiled(expression, features)
        return self._compiled[key]


def _compiled(expression: str, features: Features) -> CompiledSelector | SelectorFailure:
    # Imported late: a caller without selectors need not wait for CEL.
    from cathedra.cel.selector import compile_selector

    try:
        if not features.behaviour.lists_are_iterable_without_gate and not features.list_type_attributes:
            _refuse_iteration(expression, features)
        return compile_selector(
            expression,
            consumable_capacity=features.consumable_capacity,
            list_attributes=features.list_type_attributes or features.behaviour.lists_are_iterable_without_gate,
            mode="stored",
        )
    except CompileError as error:
        return SelectorFailure(0, True, str(error))


def _refuse_iteration(expression: str, features: Features) -> None:
    """Raise for an expression that iterates over an attribute, as 1.36 does; new expressions are still held to that."""
    # start-up time: CEL comes with the first selector
    from cathedra.cel.selector import compile_selector

    try:
        compile_selector(
            expression, consumable_capacity=features.consumable_capacity, list_attributes=False, mode="new"
        )
    except CompileError as error:
        if "cannot be range of a comprehension" in str(error):
            raise


_MISSING_KEY: Final = "no such key: "
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


def selector_error(
    failure: SelectorFailure, origins: Sequence[tuple[str, int]], device: DeviceRecord, features: Features
) -> DeviceSelectorError:
    """Return the error that Kubernetes reports for ``failure``; ``origins`` are the locations of the selectors."""
    origin, index = origins[failure.index]
    where = str(device)
    if failure.compiling:
        text = f"{origin}: selector #{index}: CEL compile error: {failure.cause}"
        return DeviceSelectorError(text, origin=origin, index=index, device="", cause=failure.cause)
    if features.behaviour.selector_errors_name_device:
        hint = _HINT if failure.cause.startswith(_MISSING_KEY) and _HINT not in failure.cause else ""
        text = f"{origin}: selector #{index} on device {where}: CEL runtime error: {failure.cause}{hint}"
    else:
        cause = failure.cause.removesuffix(_HINT)
        text = f"{origin}: selector #{index}: CEL runtime error: {cause}"
    return DeviceSelectorError(text, origin=origin, index=index, device=where, cause=failure.cause)
