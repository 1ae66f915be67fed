"""Errors of allocation, and how far each reaches.

    AllocationError
    ├── InvalidInput     an object cannot be read, or would be refused by the API server
    │   └── UndecodableInput       a field of it has the wrong type
    ├── NodeError        this node is out; others are tried          (docs/spec/allocation.md §15.2)
    └── FatalError       the pod's scheduling attempt is over, on all nodes
        ├── DeviceSelectorError    a CEL expression does not compile or fails on a device
        └── Aborted          the caller cancelled

A refusal is no error: see `cathedra.allocation.refusal.Refusal`.
"""

from __future__ import annotations

from cathedra.allocation.refusal import Refusal


class AllocationError(Exception):
    """Base of everything the allocator raises. The text is Kubernetes' own."""


class InvalidInput(AllocationError, ValueError):
    """The input cannot be used. The text names the object and what would be accepted."""


class UndecodableInput(InvalidInput):
    """An object of a known kind has a version that is not known, or a field of the wrong type."""


class NodeError(AllocationError):
    """An error of one node; scheduling continues with the others.

    ``refusal`` has the numbers of devices left for each request, if the search was made.
    """

    def __init__(self, text: str, refusal: Refusal | None = None) -> None:
        super().__init__(text)
        self.refusal = refusal


class FatalError(AllocationError):
    """The claims cannot be allocated anywhere until something changes: a claim, a class, a slice."""


class DeviceSelectorError(FatalError):
    """A selector does not compile, or fails on a device.

    ``origin`` is «class NAME» or «claim NAMESPACE/NAME», ``index`` the selector's place in it, ``device`` the
    «driver/pool/device» it failed on (empty if it does not compile), ``cause`` CEL's own text.
    """

    def __init__(self, text: str, *, origin: str, index: int, device: str, cause: str) -> None:
        super().__init__(text)
        self.origin, self.index, self.device, self.cause = origin, index, device, cause


class Aborted(FatalError):
    """The caller cancelled the search, or its deadline passed."""
