"""Queries on a cluster for the tests of the documents."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.integration.conftest import Kubectl

__all__ = ["event_messages", "get", "until"]


def get(kubectl: Kubectl, *words: str) -> Any:
    """``kubectl get … -o json``."""
    return json.loads(kubectl("get", *words, "-o", "json"))


def event_messages(kubectl: Kubectl, name: str, namespace: str = "default") -> list[str]:
    """Messages of the events about one object."""
    events = get(kubectl, "events", "-n", namespace, "--field-selector", f"involvedObject.name={name}")
    return [event["message"] for event in events["items"]]


def until(seen: Callable[[], Any], wanted: Callable[[Any], bool], timeout: float = 150) -> Any:
    """Return the result of ``seen``, repeated until it is the expected one."""
    deadline = time.monotonic() + timeout
    while not wanted(answer := seen()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer
