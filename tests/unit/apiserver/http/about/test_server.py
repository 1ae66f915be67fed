"""Health and version."""

from __future__ import annotations

import json

import pytest

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.http.about.server import HealthAndVersion
from cathedra.apiserver.http.answers.response import Response
from cathedra.releases import git_version
from tests.unit.apiserver.asgi import open_asgi
from tests.unit.apiserver.http.requests import request


def answer(path: str, *, store: bool = True, release: str = "1.37") -> Response | None:
    checks = {"ping": lambda: True, "store": lambda: store}
    return HealthAndVersion(release, checks).answer(request(path))


def told(path: str, *, store: bool = True) -> tuple[int, str]:
    found = answer(path, store=store)
    assert found is not None
    return found.status, found.body.decode()


@pytest.mark.parametrize("endpoint", ["healthz", "livez", "readyz"])
def test_a_healthy_server_is_ok_at_every_endpoint(endpoint: str) -> None:
    assert told(f"/{endpoint}") == told(f"/{endpoint}/") == (200, "ok")
    wanted = f"[+]ping ok\n[+]store ok\n{endpoint} check passed\n"
    assert told(f"/{endpoint}?verbose") == (200, wanted)


def test_a_failing_check_is_named_and_why_is_withheld() -> None:
    wanted = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n"
    assert told("/readyz", store=False) == (500, wanted)


def test_a_check_can_be_left_out_or_asked_for_alone() -> None:
    assert told("/readyz?exclude=store", store=False) == (200, "ok")
    assert told("/readyz/ping", store=False) == (200, "ok")
    assert told("/readyz/store", store=False)[0] == 500
    assert told("/readyz/nothing") == (404, "404 page not found\n")


def test_other_paths_are_anothers() -> None:
    assert answer("/api") is answer("/versions") is None


@pytest.mark.parametrize(
    ("release", "minor", "least", "git"), [("1.37", "37", "36", "v1.37.1"), ("1.36", "36", "35", "v1.36.2")]
)
def test_the_version_is_that_of_the_release(release: str, minor: str, least: str, git: str) -> None:
    found = answer("/version", release=release)
    assert found is not None
    said = json.loads(found.body)
    assert (said["major"], said["minor"], said["minCompatibilityMinor"]) == ("1", minor, least)
    assert said["gitVersion"] == git_version(release) == git
    assert said["platform"].count("/") == 1


def test_releases_before_1_33_show_no_emulated_version() -> None:
    found = answer("/version", release="1.32")
    assert found is not None
    assert not [name for name in json.loads(found.body) if name.startswith(("emulation", "minCompatibility"))]


def test_notes_are_shown_with_details_alone_and_fail_no_check() -> None:
    health = HealthAndVersion("1.37", {"ping": lambda: True}, lambda: ["warning: a"])
    plain, verbose = health.answer(request("/readyz")), health.answer(request("/readyz?verbose"))
    assert plain is not None
    assert verbose is not None
    assert (plain.status, plain.body) == (200, b"ok")
    assert (verbose.status, verbose.body) == (200, b"[+]ping ok\nwarning: a\nreadyz check passed\n")


KEYS = "/openid/v1/jwks"


async def test_the_issuers_document_leads_to_its_keys() -> None:
    async with open_asgi(ServerConfig(service_accounts=True)) as client:
        document = await client("GET", "/.well-known/openid-configuration", host="api.example.com:6443")
        assert document.json["jwks_uri"] == f"https://api.example.com:6443{KEYS}"
        assert document.json["response_types_supported"] == ["id_token"]
        keys = await client("GET", KEYS)
        assert keys.header("content-type") == "application/jwk-set+json"
        assert keys.json["keys"]
        assert not {"d", "p", "q"} & set(keys.json["keys"][0]), "the public half alone"


async def test_both_may_be_kept_for_an_hour() -> None:
    async with open_asgi(ServerConfig(service_accounts=True)) as client:
        for path in ("/.well-known/openid-configuration", KEYS):
            values = [value for key, value in (await client("GET", path)).headers if key == "cache-control"]
            assert "public, max-age=3600" in values
