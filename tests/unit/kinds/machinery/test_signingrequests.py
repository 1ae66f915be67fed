"""Certificate signing requests: rows."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.certificates_v1 import CertificateSigningRequest
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, "Pending"),
        ({"conditions": [{"type": "Approved", "status": "True"}]}, "Approved"),
        ({"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="}, "Approved,Issued"),
        ({"conditions": [{"type": "Denied", "status": "True"}, {"type": "Failed", "status": "True"}]}, "Denied,Failed"),
    ],
)
def test_a_request_says_what_became_of_it(status: dict[str, Any], shown: str) -> None:
    found = row("certificatesigningrequests", from_dict(CertificateSigningRequest, {"status": status}))
    assert (found["Condition"], found["RequestedDuration"], found["SignerName"]) == (shown, "<none>", "<none>")


def test_the_wanted_duration_is_short() -> None:
    values = {"spec": {"expirationSeconds": 86400, "signerName": "s", "username": "u"}}
    found = row("certificatesigningrequests", from_dict(CertificateSigningRequest, values))
    assert (found["RequestedDuration"], found["SignerName"], found["Requestor"]) == ("24h", "s", "u")
