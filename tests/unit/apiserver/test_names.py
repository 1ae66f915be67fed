"""Names and uids that the server makes up."""

from __future__ import annotations

import random
import uuid

from cathedra.apiserver.names import generate_uid


def test_uids_are_what_the_library_makes_of_the_same_bits() -> None:
    ours, theirs = random.Random(7), random.Random(7)
    for _ in range(200):
        assert generate_uid(ours) == str(uuid.UUID(int=theirs.getrandbits(128), version=4))
