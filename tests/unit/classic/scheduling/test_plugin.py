"""What the scheduler of 1.30 may give out beside claims that cannot be decoded."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.struct import encode
from cathedra.api.undecodable import identify
from cathedra.classic.resources import CLAIMS, SLICES
from cathedra.classic.scheduling.plugin import StructuredClaims
from tests.unit.classic.test_structured_walk import DRIVER_NAME, slice_of
from tests.unit.inprocess import API, with_api

HANDLE = {
    "driverName": DRIVER_NAME,
    "structuredData": {"nodeName": "n1", "results": [{"namedResources": {"name": "small"}}]},
}


@pytest.mark.parametrize(
    ("fields", "free"),
    [
        ({"spec": 3, "status": {"allocation": {"resourceHandles": [HANDLE]}}}, ["big"]),
        ({"spec": 3, "status": {}}, ["small", "big"]),
        ({"spec": 3, "status": {"allocation": {"resourceHandles": [7]}}}, []),
        ({"status": "odd"}, []),
    ],
)
def test_what_a_claim_may_hold_that_cannot_be_decoded_is_not_given_out(fields: dict[str, Any], free: list[str]) -> None:
    async def body(api: API) -> None:
        claims = StructuredClaims(api.client, api.informers)
        api.informers.of(SLICES).store.put(slice_of("n1", small="8Gi", big="40Gi"))
        metadata = {"name": "odd", "namespace": "default", "uid": "odd"}
        what = identify("ResourceClaim", encode({"metadata": metadata, **fields}), ValueError("odd"))
        api.informers.of(CLAIMS).store.put_undecodable(what)
        assert [one.name for one in claims.stock().free("n1", DRIVER_NAME)] == free

    with_api(body)
