"""A client returns the same verbs for the same resource, independent of earlier calls."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.client import client as client_module
from cathedra.client.client import Client, ResourceClient
from cathedra.client.negotiation import NegotiatedTransport
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS
from cathedra.client.transport import ResourceRef, WriteOptions
from cathedra.clock import SystemClock
from tests.unit.client.fake_transport import FakeTransport


def made() -> Client:
    return Client(FakeTransport(), clock=SystemClock(), field_manager="tester")


def what(found: ResourceClient[Any]) -> tuple[ResourceRef[Any], str, WriteOptions, WriteOptions]:
    return found.ref, found.namespace, found.options, found.applying


def test_a_resource_is_answered_as_asked_in_whatever_order() -> None:
    client = made()
    options, applying = WriteOptions(field_manager="tester"), WriteOptions(field_manager="tester", force=True)
    other = msgspec.structs.replace(PODS, group="example.com")
    asked = [(PODS, "a"), (PODS, "a"), (PODS, "b"), (other, "b"), (NODES, ""), (PODS, "b"), (PODS, "a"), (PODS, "")]
    for ref, namespace in asked:
        assert what(client.resource(ref, namespace)) == (ref, namespace, options, applying)
    assert client.resource(PODS, "a").ref is PODS


def test_what_is_asked_for_again_is_not_made_again() -> None:
    client = made()
    assert client.resource(PODS, "a") is client.resource(PODS, "a")


def test_a_kind_whose_version_is_not_known_yet_is_asked_for_anew() -> None:
    client = made()
    first = client.resource(RESOURCECLAIMS, "a")
    assert isinstance(first.transport, NegotiatedTransport)
    assert client.resource(RESOURCECLAIMS, "a") is not first


def test_only_so_many_resources_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "REMEMBERED", 3)
    client = made()
    for number in range(10):
        ref = msgspec.structs.replace(PODS, resource=f"things{number}")
        assert client.resource(ref, "a").ref is ref
    assert len(client._last) <= 3
