"""Every route of the API server, requested by every kind of user: the code of each response is known and judged."""

from __future__ import annotations

import msgspec
import pytest

from cathedra.apiserver.authentication.authenticator import PUBLIC_PATHS
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.routes import Route
from tests.security.walk import EXPECTED, IDENTITIES, rows, walk

DENIED = "403"
SELF = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    """The expected code of each identity, by row."""
    header, *lines = EXPECTED.read_text().splitlines()
    names = header.split()
    assert names == list(IDENTITIES)
    found = {}
    for line in lines:
        *codes, name = line.split(maxsplit=len(names))
        found[name] = dict(zip(names, codes, strict=True))
    return found


async def test_every_route_answers_every_identity_as_the_table_says() -> None:
    """A route without its row fails, and so does a row without its route."""
    found = [line async for line in walk()]
    expected = EXPECTED.read_text().splitlines()
    wrong = sorted(set(found) ^ set(expected))
    assert not wrong, "read the difference and, if it is meant, run python -m tests.security.walk:\n" + "\n".join(wrong)


def test_without_credentials_health_and_version_alone_can_be_read(table: dict[str, dict[str, str]]) -> None:
    allowed = {name for name, codes in table.items() if codes["anonymous"] != DENIED}
    assert allowed == {f"GET {path}" for path in PUBLIC_PATHS if not path.startswith("/api/")}


def test_who_is_known_and_has_no_rights_may_discover_and_ask_about_himself(table: dict[str, dict[str, str]]) -> None:
    for name, codes in table.items():
        method, _, what = name.partition(" ")
        if codes["user"] == DENIED:
            continue
        resource = what.rpartition(" ")[2]
        assert (method == "create" and resource in SELF) or what.startswith("/"), name
        assert method != "POST", name


def test_another_node_changes_nothing_and_reads_no_secret_of_the_first(table: dict[str, dict[str, str]]) -> None:
    for name, codes in table.items():
        if codes["othernode"] != DENIED:
            assert codes["node"] != DENIED, name
        verb, _, what = name.partition(" ")
        resource = what.rpartition(" ")[2]
        if verb in {"update", "patch", "delete", "deletecollection"} and codes["user"] == DENIED:
            assert codes["othernode"] in {"400", DENIED, "404"}, f"{name}: by its body, by right, or nothing there"
        if resource.partition("/")[0] in {"secrets", "configmaps", "serviceaccounts", "resourceclaims"}:
            assert codes["othernode"] == DENIED, name


def test_only_an_administrator_runs_commands_in_pods(table: dict[str, dict[str, str]]) -> None:
    for name, codes in table.items():
        if name.rpartition("/")[2] in {"exec", "attach", "portforward", "log", "proxy"}:
            assert {code for identity, code in codes.items() if identity != "admin"} == {DENIED}, name


def test_an_administrator_is_never_refused(table: dict[str, dict[str, str]]) -> None:
    assert not [name for name, codes in table.items() if codes["admin"] in {"401", DENIED}]


def test_a_new_route_makes_a_new_row() -> None:
    known = tuple(Catalog(()).routes())
    before = {row.name for row in rows(known, ())}
    new = msgspec.structs.replace(known[0], resource="gadgets", verbs=("get",))
    assert isinstance(new, Route)
    assert {row.name for row in rows((*known, new), ())} - before == {f"get {new.group or 'core'}/v1 gadgets"}
