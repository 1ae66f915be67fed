"""Allocation: recorded instances with Kubernetes' answers, replayed on `cathedra.allocation`.

Besides the allocator itself its walk is asked, which older releases are imitated with and which must give the same
answer after exactly as many steps as Kubernetes took; and where that is feasible the exhaustive search of the tests.

A line is judged in every behaviour that it speaks about. The newest one must give it unless the line is marked as
superseded; then the newest one must give the outcome that the mark names, and the release that the line was recorded
from is imitated for the rest. Lines that differ between releases are asked of each release's own behaviour.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cathedra.allocation import (
    DEVELOPMENT_1_37,
    NEWEST,
    RELEASE_1_36,
    Allocation,
    Allocator,
    AllocatorBehaviour,
    Budget,
    FatalError,
    Features,
    Inventory,
    Ledger,
    NodeError,
    Refusal,
)
from cathedra.allocation.claims.problem import Problem, Solution, expand
from cathedra.allocation.search.budget import BudgetExceeded, Meter
from cathedra.allocation.search.exhaustive import ExhaustiveSearch
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.struct import encode, from_dict
from tests.conformance.vectorfiles import cases, vector_files
from tests.unit.allocation import reference

HARD_BUDGET = Budget(states=2_000_000)
"""More than the search of any recorded instance needs."""
WALK_BUDGET = Budget(states=4_000)
"""A longer walk is not compared."""
EXHAUSTIVE_STEPS = 400
"""Nor an exhaustive search that must judge more placements than that."""


@dataclass
class Answer:
    """Return the outcome in the vectors' form."""

    outcome: str
    error: str = ""
    results: list[dict[str, Any]] | None = None


def run(folder: Path) -> Iterator[tuple[str, str, bool, str]]:
    """One result per line: file, case id, whether it passed, the first difference."""
    for name, path in vector_files(folder).items():
        for case in cases(path):
            try:
                difference = judge(case)
            except Exception as error:  # one broken case must not hide the others
                difference = f"crashed: {error!r}"
            yield name, case["id"], not difference, difference


def judge(case: dict[str, Any]) -> str:
    """The first difference, or nothing."""
    expected = case["answer"]
    superseded = case.get("superseded", "")
    if expected["outcome"] == "timeout":
        return judge_timeout(case)
    for behaviour in behaviours(case):
        answer = ask(case["instance"], behaviour)
        newest_outcome = superseded.removeprefix("outcome: ") if superseded.startswith("outcome: ") else ""
        if behaviour is NEWEST and newest_outcome:
            difference = "" if answer.outcome == newest_outcome else f"outcome {answer.outcome}, not {newest_outcome}"
        else:
            difference = compare(answer, expected)
        difference = difference or compare_walk(case, behaviour, answer)
        if difference:
            return f"[{behaviour.name}] {difference}"
    return ""


def compare_walk(case: dict[str, Any], behaviour: AllocatorBehaviour, answer: Answer) -> str:
    """The first difference between the allocator and its walk, or in the number of steps, or nothing."""
    allocator, node, claims = prepare(case["instance"], behaviour, WALK_BUDGET)
    features = allocator.features
    prepared = allocator.prepare(claims)
    walk: ExhaustiveSearch | None = None
    try:
        view = NodeSupplyCache(allocator.inventory, features).of(node)
        states = view.states(allocator.ledger, shares=features.consumable_capacity)
        problem = Problem(prepared.plans, node, view, states, features)
        expand(problem)
        walk = ExhaustiveSearch(problem, Meter(WALK_BUDGET.begin()))
        placed = named(problem, walk.run())
    except BudgetExceeded:
        return ""
    except (FatalError, NodeError) as error:
        placed = None
        if answer.outcome not in ("fatal", "node-error") or answer.error != str(error):
            return f"walk raised {error}, allocator said {answer.outcome} {answer.error}"
    calls = walk.calls if walk is not None else 0
    recorded = case["answer"].get("solveCalls")
    newer = behaviour is NEWEST and "superseded" in case
    if recorded not in (None, calls) and case["answer"]["allocator"] != "stable" and not newer:
        return f"{calls} steps, not {recorded}"
    if answer.outcome == "fatal":
        return ""
    found = answer.results and [
        (one["request"], one["device"]) for of in answer.results for one in of["devices"].get("results", ())
    ]
    if (found or None) != (placed or None):
        return f"walk gave {placed}, allocator {found}"
    if behaviour is NEWEST and walk is not None:
        with suppress(FatalError, reference.TooLong):
            exhaustive = reference.search(problem, EXHAUSTIVE_STEPS)
            if (exhaustive or None) != (placed or None):
                return f"exhaustive search gave {exhaustive}, walk {placed}"
    return ""


def named(problem: Problem, solution: Solution | None) -> list[tuple[str, str]] | None:
    """«request» and device of each placement."""
    if solution is None:
        return None
    return [(one.choice.option.name, problem.devices[one.position].name) for of in solution.placements for one in of]


def behaviours(case: dict[str, Any]) -> tuple[AllocatorBehaviour, ...]:
    """The behaviours that a line speaks about."""
    superseded = case.get("superseded", "")
    newest = () if superseded in ("result", "text") else (NEWEST,)
    match case["release"]:
        case "1.36":
            return (RELEASE_1_36,)
        case "1.37":
            return (DEVELOPMENT_1_37, *newest)
    return (RELEASE_1_36, DEVELOPMENT_1_37, *newest) if superseded else newest


def judge_timeout(case: dict[str, Any]) -> str:
    """Kubernetes gave up: what is right follows from how the instance was made."""
    answer = ask(case["instance"], NEWEST)
    if not case["id"].startswith("hard-turn-round-"):
        return "" if answer.outcome == "nofit" else f"outcome {answer.outcome}, not nofit"
    if answer.results is None:
        return f"outcome {answer.outcome}, not allocated"
    names = {one["request"]: one["device"] for result in answer.results for one in result["devices"]["results"]}
    devices = [
        device["name"] for one in case["instance"]["resourceSlices"] for device in one["spec"].get("devices", ())
    ]
    half = len(devices) // 2
    for request, device in names.items():
        number = int(request[1:]) + (half if request.startswith("l") else 0)
        if device != devices[number]:
            return f"{request} got {device}, not {devices[number]}"
    return ""


def prepare(
    instance: dict[str, Any], behaviour: AllocatorBehaviour, budget: Budget
) -> tuple[Allocator, core_v1.Node, list[ResourceClaim]]:
    """An instance as objects."""
    features = Features.from_names(instance["features"], behaviour)
    inventory = Inventory(from_dict(ResourceSlice, one) for one in instance["resourceSlices"])
    ledger = Ledger()
    for one in instance["allocatedClaims"]:
        ledger.add(from_dict(ResourceClaim, one))
    classes = {one["metadata"]["name"]: from_dict(DeviceClass, one) for one in instance["deviceClasses"]}
    allocator = Allocator(features, classes, inventory.snapshot(), ledger.snapshot(), budget=budget)
    claims = [from_dict(ResourceClaim, one) for one in instance["claims"]]
    return allocator, from_dict(core_v1.Node, instance["node"]), claims


def ask(instance: dict[str, Any], behaviour: AllocatorBehaviour) -> Answer:
    """Put an instance to the allocator."""
    allocator, node, claims = prepare(instance, behaviour, HARD_BUDGET)
    try:
        outcome = allocator.allocate(node, claims)
    except NodeError as error:
        return Answer("node-error", str(error))
    except FatalError as error:
        return Answer("fatal", str(error))
    if isinstance(outcome, Refusal):
        return Answer("stopped" if outcome.stopped else "nofit")
    return Answer("allocated", results=plain(outcome))


def plain(allocation: Allocation) -> list[dict[str, Any]]:
    """Results as JSON, with share IDs numbered in order of appearance."""
    numbers = itertools.count(1)
    results: list[dict[str, Any]] = [json.loads(encode(result)) for result in allocation.results]
    for result in results:
        for device in result["devices"].get("results", ()):
            if "shareID" in device:
                device["shareID"] = f"S{next(numbers)}"
    return results


def compare(answer: Answer, expected: dict[str, Any]) -> str:
    """The first difference, or nothing."""
    if answer.outcome != expected["outcome"]:
        return f"outcome {answer.outcome} ({answer.error}), not {expected['outcome']} ({expected.get('error', '')})"
    wanted = expected.get("error", "")
    # From «&» on it is a dump of Kubernetes' internal objects.
    if wanted.partition("&")[0] != answer.error.partition("&")[0]:
        return f"error {answer.error!r}, not {wanted!r}"
    if expected.get("results") != answer.results:
        return f"results {json.dumps(answer.results)}, not {json.dumps(expected.get('results'))}"
    return ""
