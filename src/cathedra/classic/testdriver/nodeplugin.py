"""The test driver's node plugin: the variables of a claim's handle become the environment of its containers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cathedra.api.struct import decode
from cathedra.classic.nodes.plugin import NodeClaim, NodeDriver
from cathedra.classic.testdriver.resources import HandleData
from cathedra.driver.claim import Edits
from cathedra.driver.files import Files
from cathedra.driver.preparing.specs import ClaimSpecs

CLASS = "test"


class WrongNode(Exception):
    """The claim was allocated for another node."""


class TestNodeDriver(NodeDriver):
    """Writes one CDI document for each prepared claim."""

    __test__ = False

    def __init__(self, name: str, node: str, *, cdi_dir: Path, files: Files) -> None:
        """``node`` is where the plugin runs; "" if it must not check that."""
        self._node = node
        vendor = name.partition(".")[2] or name
        self._specs = ClaimSpecs(files, cdi_dir, vendor, CLASS)
        self.prepared: dict[str, tuple[str, ...]] = {}
        """Claims by UID, and their devices."""

    async def prepare(self, claim: NodeClaim) -> tuple[str, ...]:
        """Write the claim's document."""
        handle = HandleData.decode(claim.handle)
        if handle.node and self._node and handle.node != self._node:
            raise WrongNode(f"claim {claim.name} was allocated for node {handle.node}, this is {self._node}")
        device = f"claim-{claim.uid}"
        document = self._specs.document({device: Edits(env=handle.env | _structured(claim))})
        if document is None:
            devices: tuple[str, ...] = ()
        else:
            self._specs.ensure(claim.uid, document)
            devices = (self._specs.device_id(device),)
        self.prepared[claim.uid] = devices
        return devices

    async def unprepare(self, claim: NodeClaim) -> None:
        """Remove the claim's document."""
        self._specs.remove(claim.uid)
        self.prepared.pop(claim.uid, None)


def _structured(claim: NodeClaim) -> dict[str, str]:
    """The variables of a claim that the scheduler allocated: parameters are objects with texts.

    Raises:
        ValueError: some are not.
    """
    structured = claim.structured
    if structured is None:
        return {}
    sources = [("admin", structured.class_parameters), ("user", structured.claim_parameters)]
    sources += [("user", parameters) for parameters in structured.request_parameters]
    env: dict[str, str] = {}
    for prefix, text in sources:
        if not text:
            continue
        try:
            values = decode(dict[str, str], text)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{prefix} parameters {text.decode()!r}: {error}") from error
        env |= {f"{prefix}_{key.lower()}": value for key, value in values.items()}
    return env
