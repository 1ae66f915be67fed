"""The device map with the rights and options of its kustomize base: enough together, and one less is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cathedra.api.struct import to_dict
from cathedra.insight.reading.state import reader_role
from tests.integration.conftest import Kubectl
from tests.integration.test_beside_kubernetes import BASES, as_account
from tests.integration.test_parts_alone import Parts

FILE = BASES / "map" / "map.yaml"
OBJECTS = list(yaml.safe_load_all(FILE.read_text()))


def rights(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Resource, or path, and verb."""
    return {
        (one, verb)
        for rule in rules
        for one in (*rule.get("resources", ()), *rule.get("nonResourceURLs", ()))
        for verb in rule["verbs"]
    }


def role() -> dict[str, Any]:
    return next(dict(one) for one in OBJECTS if one["kind"] == "ClusterRole")


def test_the_base_has_the_rights_that_the_command_rights_prints() -> None:
    assert rights(role()["rules"]) == rights([to_dict(rule) for rule in reader_role().rules])


@dataclass
class Stand:
    """An API server with the base applied."""

    kubectl: Kubectl
    folder: Path

    @contextmanager
    def page(self) -> Iterator[tuple[str, str]]:
        """The map as its base runs it; yields its address and the token."""
        words = next(one for one in OBJECTS if one["kind"] == "Deployment")
        command = words["spec"]["template"]["spec"]["containers"][0]["command"]
        options = [word.replace("--port=8765", "--port=0") for word in command[1:]]
        config = as_account(self.kubectl, self.folder, "cathedra-map")
        process = subprocess.Popen(
            [sys.executable, "-m", "cathedra.cli.main", *options, config], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            found = re.search(r"(http://127\.0\.0\.1:\d+)/#(\S+)", process.stdout.readline())
            assert found is not None
            yield found[1], found[2]
        finally:
            process.terminate()
            process.communicate(timeout=60)

    def refused(self) -> set[str]:
        """The resources that the map names as forbidden."""
        with self.page() as (address, token):
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            body = json.dumps({"id": "1", "question": "summarize"}).encode()
            request = urllib.request.Request(f"{address}/engine", body, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                notes = json.load(answer)["result"]["notes"]
        return {note["resource"] for note in notes if note["problem"] == "forbidden"}


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with tempfile.TemporaryDirectory(prefix="map-") as name, ExitStack() as stack:
        folder = Path(name)
        parts = Parts(folder, stack)
        kubectl = parts.apiserver()
        kubectl("apply", "-k", str(FILE.parent))
        yield Stand(kubectl, folder)


def test_the_bases_rights_are_enough(stand: Stand) -> None:
    assert stand.refused() == set()


@pytest.mark.parametrize("resource", ["pods", "resourceslices", "deviceclasses", "nodes"])
def test_a_right_that_is_missing_is_named(stand: Stand, resource: str) -> None:
    less = role()
    less["rules"] = [
        {**rule, "resources": [one for one in rule["resources"] if one != resource]} if "resources" in rule else rule
        for rule in less["rules"]
    ]
    stand.kubectl("apply", "-f", "-", stdin=json.dumps(less))
    try:
        assert stand.refused() == {resource}
    finally:
        stand.kubectl("apply", "-k", str(FILE.parent))
