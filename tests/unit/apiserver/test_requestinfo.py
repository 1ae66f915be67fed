"""The parse of a request's method and path, as by Kubernetes (docs/spec/apimachinery.md §1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.requestinfo import RequestInfo, request_info

NAMED = ("verb", "group", "version", "namespace", "resource", "subresource", "name")
POD = "/api/v1/namespaces/other/pods/abc"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/namespaces", ("list", "", "v1", "", "namespaces", "", "")),
        ("GET", "/api/v1/namespaces/other", ("get", "", "v1", "other", "namespaces", "", "other")),
        ("PUT", "/api/v1/namespaces/other/finalize", ("update", "", "v1", "other", "namespaces", "finalize", "other")),
        ("GET", "/api/v1/namespaces/other/status", ("get", "", "v1", "other", "namespaces", "status", "other")),
        ("GET", "/api/v1/namespaces/other/pods", ("list", "", "v1", "other", "pods", "", "")),
        ("GET", POD, ("get", "", "v1", "other", "pods", "", "abc")),
        ("HEAD", POD, ("get", "", "v1", "other", "pods", "", "abc")),
        ("GET", "/api/v1/pods", ("list", "", "v1", "", "pods", "", "")),
        ("POST", "/api/v1/namespaces/other/pods", ("create", "", "v1", "other", "pods", "", "")),
        ("PUT", POD, ("update", "", "v1", "other", "pods", "", "abc")),
        ("PATCH", f"{POD}/status", ("patch", "", "v1", "other", "pods", "status", "abc")),
        ("DELETE", POD, ("delete", "", "v1", "other", "pods", "", "abc")),
        ("DELETE", "/api/v1/namespaces/other/pods", ("deletecollection", "", "v1", "other", "pods", "", "")),
        ("OPTIONS", POD, ("", "", "v1", "other", "pods", "", "abc")),
        ("GET", "/api/v1/watch/pods", ("watch", "", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/watch/namespaces/other/pods/abc", ("watch", "", "v1", "other", "pods", "", "abc")),
        ("POST", "/api/v1/watch/pods", ("watch", "", "v1", "", "pods", "", "")),
        ("GET", "/apis/apps/v1/deployments", ("list", "apps", "v1", "", "deployments", "", "")),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            ("patch", "apps", "v1", "n", "deployments", "scale", "d"),
        ),
    ],
)
def test_a_path_names_a_resource(method: str, path: str, expected: tuple[str, ...]) -> None:
    info = request_info(method, path)
    assert info.is_resource
    assert tuple(getattr(info, name) for name in NAMED) == expected


@pytest.mark.parametrize(
    "path", ["/", "", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/a/b/c/d"]
)
def test_other_paths_name_none(path: str) -> None:
    info = request_info("POST", path)
    assert (info.is_resource, info.verb, info.resource, info.scope) == (False, "post", "", "")


def test_the_query_makes_a_list_a_watch_and_nothing_else() -> None:
    assert request_info("GET", "/api/v1/pods", watch=True).verb == "watch"
    assert request_info("GET", POD, watch=True).verb == "get"
    assert request_info("DELETE", "/api/v1/pods", watch=True).verb == "deletecollection"


@pytest.mark.parametrize(
    ("path", "long"),
    [
        (f"{POD}/exec", True),
        (f"{POD}/log", True),
        ("/api/v1/nodes/n/proxy/metrics", True),
        (f"{POD}/status", False),
        ("/apis/apps/v1/namespaces/n/deployments/d/log", False),
        ("/apis/made.up/v1/namespaces/n/pods/p/exec", False),
        ("/api/v1/namespaces/n/configmaps/c/exec", False),
    ],
)
def test_what_is_passed_on_to_a_node_takes_as_long_as_the_client_wants(path: str, *, long: bool) -> None:
    assert request_info("GET", path).long_running is long


@pytest.mark.parametrize(
    ("path", "namespaced", "addressed"),
    [
        ("/api/v1/pods", True, True),
        ("/api/v1/pods/p", True, False),
        ("/api/v1/namespaces/n/pods/p", True, True),
        ("/api/v1/namespaces//pods/p", True, False),
        ("/api/v1/namespaces/n/nodes", False, False),
        ("/api/v1/namespaces/n", False, True),
        ("/api/v1/namespaces/n/namespaces/n", False, False),
        ("/api/v1/nodes/n", False, True),
        ("/api/v1/nodes/n/proxy/more", False, True),
        ("/api/v1/watch/nodes/n/proxy", False, False),
    ],
)
def test_a_path_has_the_parts_that_the_resource_has(path: str, namespaced: bool, addressed: bool) -> None:
    assert request_info("GET", path).addresses(namespaced=namespaced) is addressed


segments = st.lists(
    st.sampled_from(["api", "apis", "v1", "namespaces", "watch", "pods", "n", "status", "", "x"]), max_size=9
)


@given(st.sampled_from(["GET", "POST", "DELETE", "TRACE"]), segments, st.booleans())
def test_every_path_is_parsed_and_always_alike(method: str, parts: list[str], watch: bool) -> None:
    path = "/" + "/".join(parts)
    info: RequestInfo = request_info(method, path, watch=watch)
    assert info == request_info(method, path, watch=watch)
    assert (info.method, info.path) == (method, path)
    found: Any = [info.resource, info.name, info.subresource, info.rest]
    assert not any(found) or info.is_resource
