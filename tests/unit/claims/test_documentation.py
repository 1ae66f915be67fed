"""The example in docs/claims.md runs with the official client, and kr8s creates claims as the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kr8s
import kubernetes
import pytest

from cathedra.claims import allocated, request, requested, resource_claim
from cathedra.testing import DRACluster

PAGE = Path(__file__).parents[3] / "docs" / "claims.md"


@pytest.mark.dra_cluster(profile="h100-8")
def test_the_example_of_the_page_runs(dra_cluster: DRACluster, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    submission, reading = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    # The client reads the environment variable KUBECONFIG when it is imported.
    monkeypatch.setattr(kubernetes.config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(dra_cluster.kubeconfig))
    names: dict[str, Any] = {}
    exec(compile(submission, str(PAGE), "exec"), names)
    dra_cluster.wait_for("pod/train", "condition=PodScheduled")
    exec(compile(reading, str(PAGE), "exec"), names)
    assert names["version"] == "v1"


def test_the_page_has_at_most_forty_lines() -> None:
    """A platform's own helper is longer; so the page stays shorter than what it replaces."""
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 40


async def test_kr8s_creates_a_claim_and_reads_it(dra_cluster: DRACluster, kubeconfig: Path) -> None:
    api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    claim = resource_claim("c", request("r", "gpu.nvidia.com", 2), namespace="default")
    kind = kr8s.asyncio.objects.new_class("ResourceClaim", claim["apiVersion"])
    await kind(claim, api=api).create()
    found = await kind.get("c", namespace="default", api=api)
    assert (requested(found), allocated(found)) == ({"gpu.nvidia.com": 2}, {})
