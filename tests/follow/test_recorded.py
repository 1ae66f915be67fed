"""The comparison with what Kubernetes published for its releases: nothing is listed but declared deviations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.follow.__main__ import main
from tools.follow.openapi import SWAGGER

from tests.follow.checkout import write
from tests.unit.apiserver.openapi.test_published import DIFFERENT, definitions, published


@pytest.mark.parametrize("release", ["1.35", "1.37"])
def test_the_schemas_of_a_release_do_not_differ(
    release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = published()[release] | {name: definitions(release)[name] for name in DIFFERENT}
    write(tmp_path, f"kubernetes-{release}/{SWAGGER}", json.dumps({"definitions": recorded}))
    status = main([str(tmp_path / f"kubernetes-{release}"), "--subject", "openapi"])
    assert (status, capsys.readouterr().out) == (0, f"0 differences to Kubernetes {release}, 0 declared deviations\n")


def test_a_field_that_a_release_adds_is_listed_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = published()["1.37"] | {name: definitions("1.37")[name] for name in DIFFERENT}
    claim = recorded["io.k8s.api.resource.v1.ResourceClaimSpec"]
    added = {**claim, "properties": {**claim["properties"], "seat": {"type": "string"}}}
    recorded["io.k8s.api.resource.v1.ResourceClaimSpec"] = added
    write(tmp_path, f"kubernetes-1.37/{SWAGGER}", json.dumps({"definitions": recorded}))
    assert main([str(tmp_path / "kubernetes-1.37"), "--subject", "openapi"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"openapi: {SWAGGER}",
        '  resource.v1.ResourceClaimSpec.seat: Kubernetes {"type": "string"}; Cathedra nothing',
    ]
