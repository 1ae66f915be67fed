"""The advisor's answers for each path and each kind of user: a row for everything that its port serves."""

from __future__ import annotations

import pytest

from cathedra.mcp import TOOLS
from tests.unit.mcp.asked import ADMIN, BASIS, STRANGER, TEAM_A, Asking, asking

CLIENTS = ("nobody", "forged", STRANGER, "reader", TEAM_A, ADMIN)
"""Without a token; with a forged one; with no rights; with rights on nodes and devices, with those on a namespace as
well; and with all rights to list."""
TABLE = """
nobody  forged  stranger  reader  team-a  admin
   401     401       403     200     200    200  GET /explain
   401     401       403     403     200    200  GET /explain?pod=team-a/next-a
   401     401       403     403     403    200  GET /explain?pod=team-b/next-b
   401     401       403     403     200    200  GET /explain?claim=team-a/train-a
   401     401       403     403     403    200  GET /explain?claim=team-b/train-b
   401     401       403     403     403    200  GET /explain?namespace=team-b
   401     401       403     403     200    200  POST /explain
   401     401       403     200     200    200  GET /devices
   401     401       403     200     200    200  GET /usage
   401     401       403     403     200    200  GET /usage?namespace=team-a
   401     401       403     403     403    200  GET /usage?namespace=team-b
   401     401       403     200     200    200  GET /match?expression=true
   401     401       403     200     200    200  POST /match
   401     401       405     405     405    405  GET /simulate
   401     401       200     200     200    200  POST /lint
   401     401       405     405     405    405  DELETE /devices
   401     401       200     200     200    200  GET /openapi.json
   401     401       404     404     404    404  GET /nothing
""".strip().splitlines()[1:]
MANIFEST = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"
BODIES = {
    "/explain": {"manifests": MANIFEST, "namespace": TEAM_A},
    "/match": {"expression": "true"},
    "/lint": {"manifests": MANIFEST},
}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.split(maxsplit=len(CLIENTS))[-1])
def test_each_user_gets_what_the_table_says(row: str) -> None:
    *expected, method, target = row.split()
    path, _, query = target.partition("?")
    found: list[str] = []

    async def body(asked: Asking) -> None:
        asked.tokens["forged"] = "forged"
        await asked.user("reader", *BASIS)
        for client in CLIENTS:
            if method == "POST":
                status, _ = await asked.post(path, client, **BODIES[path])
            else:
                parameters = dict([query.split("=")] if query else [])
                status, _, _ = await asked.request(path, client, method=method, **parameters)
            found.append(str(status))

    asking(body)
    assert found == expected


def test_every_tool_has_a_row() -> None:
    rows = {row.split()[-1].partition("?")[0] for row in TABLE}
    assert rows >= {f"/{tool.name}" for tool in TOOLS}
