"""Allocation: Kubernetes' own answers to recorded instances, asked again of `cathedra.allocation`.

A line is judged in every behaviour that it speaks about. The newest one must give it unless the line is marked as
superseded; then the newest one must give the outcome that the mark names, and the release that the line was recorded
from is imitated for the rest. Lines that differ between releases are asked of each release's own behaviour.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cathedra.allocation import (
    DEVELOPMENT_1_37,
    NEWEST,
    RELEASE_1_36,
    Allocation,
    Allocator,
    Behaviour,
    Budget,
    FatalError,
    Features,
    Inventory,
    Ledger,
    NodeError,
    Refusal,
)
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.struct import encode, from_dict

HARD_BUDGET = Budget(states=2_000_000)
"""More than the walk of any recorded instance needs."""


@dataclass
class Answer:
    """What came out, in the vectors' words."""

    outcome: str
    error: str = ""
    results: list[dict[str, Any]] | None = None


def run(folder: Path) -> Iterator[tuple[str, str, bool, str]]:
    """One result per line: file, case id, whether it passed, the first difference."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    case = json.loads(line)
                    try:
                        difference = judge(case)
                    except Exception as error:  # one broken case must not hide the others
                        difference = f"crashed: {error!r}"
                    yield path.name, case["id"], not difference, difference


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
        if difference:
            return f"[{behaviour.name}] {difference}"
    return ""


def behaviours(case: dict[str, Any]) -> tuple[Behaviour, ...]:
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


def ask(instance: dict[str, Any], behaviour: Behaviour) -> Answer:
    """Put an instance to the allocator."""
    features = Features.from_names(instance["features"], behaviour)
    inventory = Inventory(from_dict(ResourceSlice, one) for one in instance["resourceSlices"])
    ledger = Ledger()
    for one in instance["allocatedClaims"]:
        ledger.add(from_dict(ResourceClaim, one))
    classes = {one["metadata"]["name"]: from_dict(DeviceClass, one) for one in instance["deviceClasses"]}
    allocator = Allocator(features, classes, inventory.snapshot(), ledger.snapshot(), budget=HARD_BUDGET)
    claims = [from_dict(ResourceClaim, one) for one in instance["claims"]]
    try:
        outcome = allocator.allocate(from_dict(core_v1.Node, instance["node"]), claims)
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
