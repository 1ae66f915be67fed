"""Requests made up from our own OpenAPI documents: whatever fits the schema gets an answer that fits it too.

A small number of examples per operation, always the same ones; streams are left out, since they have no end.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import response_schema_conformance

from tests.integration.conftest import RunningCluster

EXAMPLES = 4
DOCUMENTS = {
    "apis/resource.k8s.io/v1": "",
    "api/v1": "configmaps",
    "apis/apps/v1": "deployments",
    "apis/apiextensions.k8s.io/v1": "",
}
"""Documents that are tried, and the resource to which a large one is narrowed."""


@pytest.fixture(scope="module")
def session(start_cluster: Callable[..., RunningCluster], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A session with an API server, as its administrator; ``session.base`` is the URL."""
    cluster = start_cluster("--nodes=0")
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    folder = tmp_path_factory.mktemp("credentials")
    for name, data in (
        ("ca", server["certificate-authority-data"]),
        ("crt", user["client-certificate-data"]),
        ("key", user["client-key-data"]),
    ):
        (folder / name).write_bytes(base64.b64decode(data))
    made = requests.Session()
    made.trust_env = False  # neither proxies nor other authorities
    made.verify = str(folder / "ca")
    made.cert = (str(folder / "crt"), str(folder / "key"))
    made.base = server["server"]
    return made


def document(session: Any, path: str, resource: str) -> dict[str, Any]:
    """A document without streams, narrowed to a resource."""
    found: dict[str, Any] = session.get(f"{session.base}/openapi/v3/{path}").json()
    kept = {}
    for where, item in found["paths"].items():
        if "/watch/" in where or (resource and f"/{resource}" not in where):
            continue
        for part in [item, *(item[method] for method in item if method != "parameters")]:
            part["parameters"] = [one for one in part.get("parameters", ()) if one["name"] != "watch"]
        kept[where] = item
    return {**found, "paths": kept}


@pytest.mark.parametrize("path", DOCUMENTS)
def test_what_fits_the_schema_gets_an_answer_that_fits_it(session: Any, path: str) -> None:
    schema = schemathesis.openapi.from_dict(document(session, path, DOCUMENTS[path]))
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def run(case: Any) -> None:
            nonlocal tried
            response = case.call(
                base_url=session.base, session=session, verify=session.verify, cert=session.cert, timeout=150
            )
            judge(case, response)
            tried += 1

        run()
    assert tried > EXAMPLES


def judge(case: Any, response: Any) -> None:
    """No failure of the server's own, and every answer in its form."""
    kind = response.headers["content-type"][0].partition(";")[0]
    if response.status_code >= 400 and kind == "application/json":
        status = response.json()
        assert (status["kind"], status["code"]) == ("Status", response.status_code), status
        # Kubernetes answers some mistakes of the client with 500 and no reason; everything else is ours.
        assert response.status_code < 500 or not status.get("reason"), (case.as_curl_command(), status)
    elif response.status_code < 300 and kind == "application/json":
        case.validate_response(response, checks=[response_schema_conformance])
