"""Requests of sessions as the verbs take them."""

from __future__ import annotations

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.local.requests import list_options
from cathedra.client.local.messages import Options


def test_a_limit_beyond_64_bits_is_refused() -> None:
    assert list_options(Options(limit=2**63 - 1)).limit == 2**63 - 1
    with pytest.raises(StatusError, match="the limit 9223372036854775808 is out of range") as caught:
        list_options(Options(limit=2**63))
    assert caught.value.code == 400
