"""Fuzzing of the allocator: recorded clusters, damaged.

An input is an instance of the conformance vectors (node, classes, slices, claims) as JSON. What cannot be decoded is no
input; for the rest the allocator gives an allocation, a refusal or one of its two errors, within its budget.
"""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Final

from tests.conformance import allocation_area

from cathedra.allocation import Allocation, AllocatorBehaviour, Budget, FatalError, NodeError, Refusal
from cathedra.api.nesting import load_json
from tools.fuzzing import Layer
from tools.recorded import recorded

__all__ = ["NAMES", "layer"]

NAMES: Final = ("allocation", "allocation-1.36")
SEEDS: Final = 400
BUDGET: Final = Budget(states=20_000)
_BEHAVIOURS: Final = {"allocation": allocation_area.NEWEST, "allocation-1.36": allocation_area.RELEASE_1_36}


class NoOutcome(Exception):
    """The allocator gave back neither an allocation nor a refusal."""


def _take(behaviour: AllocatorBehaviour, data: bytes) -> None:
    try:
        instance = load_json(data)
        instance["features"] = {name: value is True for name, value in instance["features"].items()}
        allocator, node, claims = allocation_area.prepare(instance, behaviour, BUDGET)
    except Exception:  # an input that is no instance: its decoding is another layer's
        return
    try:
        outcome = allocator.allocate(node, claims)
    except (NodeError, FatalError):
        return
    if not isinstance(outcome, Refusal | tuple | list | Allocation):
        raise NoOutcome(repr(outcome))


def layer(name: str) -> Layer:
    """The layer of that name."""

    def seeds() -> list[bytes]:
        instances = [json.dumps(case["instance"]).encode() for case in recorded("allocation")]
        return random.Random(1).sample([one for one in instances if len(one) < 8_000], SEEDS)

    return Layer(name, partial(_take, _BEHAVIOURS[name]), seeds)
