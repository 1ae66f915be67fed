"""Requests of sessions: how they are recorded, what is left to HTTP, and what is refused."""

from __future__ import annotations

import tracemalloc

import pytest

from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.pipeline.operations import ResourceOperations
from cathedra.apiserver.requestinfo import request_info
from cathedra.session.protocol import RequestMessage, RequestOptions
from cathedra.session.requests import Requests, list_options, record_of, request_info_of, with_kind
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

MEGABYTE = 1_000_000
AGGREGATED = ("example.com", "v1")
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def message(
    verb: str, resource: str = "configmaps", *, group: str = "", name: str = "", subresource: str = ""
) -> RequestMessage:
    return RequestMessage(1, 0, verb, group, "v1", resource, "default", name, subresource, 0, RequestOptions())


def test_a_limit_beyond_64_bits_is_refused() -> None:
    assert list_options(RequestOptions(limit=2**63 - 1)).limit == 2**63 - 1
    with pytest.raises(StatusError, match="the limit 9223372036854775808 is out of range") as caught:
        list_options(RequestOptions(limit=2**63))
    assert caught.value.code == 400


async def test_names_as_long_as_messages_are_not_kept() -> None:
    async with open_asgi() as asgi:
        pipeline = asgi.server.app.pipeline
        tracemalloc.start()
        try:
            for number in range(20):
                record = record_of(pipeline, message("get", f"{number}{'x' * MEGABYTE}", name="a"), UserInfo("ada"))
                pipeline.begin(record)
                record.status = 404
                pipeline.end(record)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < 3 * MEGABYTE


@pytest.mark.parametrize(
    ("asked", "method", "path"),
    [
        (message("list"), "GET", "/api/v1/namespaces/default/configmaps"),
        (message("create"), "POST", "/api/v1/namespaces/default/configmaps"),
        (message("update", "pods", name="p", subresource="status"), "PUT", "/api/v1/namespaces/default/pods/p/status"),
        (message("delete", "leases", group="x.io", name="l"), "DELETE", "/apis/x.io/v1/namespaces/default/leases/l"),
    ],
)
def test_a_message_is_the_request_of_its_path(asked: RequestMessage, method: str, path: str) -> None:
    assert request_info_of(asked) == request_info(method, path)


def requests_of(asgi: ASGIClient) -> Requests:
    server = asgi.server
    operations = ResourceOperations(server.context, server.catalog)
    return Requests(server.context, server.app.pipeline, operations, lambda: {AGGREGATED})


def is_served(asgi: ASGIClient, asked: RequestMessage, *, limited: bool = True) -> bool:
    try:
        requests_of(asgi).find(asked, request_info_of(asked), limited=limited)
    except StatusError as error:
        if (error.code, error.status.details) != (404, None):
            raise
        return False  # which leads the client to HTTP
    return True


async def test_other_servers_groups_and_bodies_of_custom_objects_are_left_to_http() -> None:
    things = {
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"plural": "things", "kind": "Thing"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    async with open_asgi() as asgi:
        assert (await asgi("POST", CRD, things)).status == 201
        await asgi.settle()
        assert asgi.server.catalog.find("example.org", "v1", "things") is not None
        assert is_served(asgi, message("create"))
        assert not is_served(asgi, message("get", "things", group="example.com", name="a"))
        for verb, served in (("get", True), ("patch", True), ("create", False), ("update", False)):
            name = "" if verb == "create" else "a"
            assert is_served(asgi, message(verb, "things", group="example.org", name=name)) is served
            assert is_served(asgi, message(verb, "things", group="example.org", name=name), limited=False)


async def test_connections_and_kinds_of_their_own_are_left_to_http() -> None:
    async with open_asgi() as asgi:
        assert not is_served(asgi, message("get", "pods", name="p", subresource="log"))
        assert not is_served(asgi, message("get", "deployments", group="apps", name="d", subresource="scale"))
        assert is_served(asgi, message("get", "deployments", group="apps", name="d", subresource="status"))


@pytest.mark.parametrize("name", ["a/status", "/", "a/b/c"])
async def test_a_name_that_means_another_path_is_not_served(name: str) -> None:
    async with open_asgi() as asgi:
        assert not is_served(asgi, message("get", name=name))


def test_bodies_are_logged_with_the_kind_that_http_has_in_them() -> None:
    kind = GroupVersionKind("apps", "v1", "Deployment")
    assert with_kind(kind, b'{"spec":1}') == b'{"kind":"Deployment","apiVersion":"apps/v1","spec":1}'
    assert with_kind(kind, b"{}") == b'{"kind":"Deployment","apiVersion":"apps/v1"}'
    assert with_kind(kind, b"nonsense") == b"nonsense"
