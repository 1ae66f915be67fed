"""Finalize changes a namespace's finalizers and nothing else (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from tests.unit.apiserver.asgi import open_asgi

NAMESPACES = "/api/v1/namespaces"


async def test_a_namespace_goes_with_its_last_finalizer() -> None:
    async with open_asgi() as asgi:
        made = (await asgi("POST", NAMESPACES, {"metadata": {"name": "n"}})).json
        assert made["spec"]["finalizers"] == ["kubernetes"]
        await asgi("DELETE", f"{NAMESPACES}/n")
        ending = (await asgi("GET", f"{NAMESPACES}/n")).json
        assert ending["status"]["phase"] == "Terminating"
        ending["spec"]["finalizers"] = []
        assert (await asgi("PUT", f"{NAMESPACES}/n/finalize", ending)).status == 200
        assert (await asgi("GET", f"{NAMESPACES}/n")).status == 404


async def test_labels_are_not_changed_by_it() -> None:
    async with open_asgi() as asgi:
        made = (await asgi("POST", NAMESPACES, {"metadata": {"name": "n"}})).json
        made["metadata"]["labels"]["new"] = "label"
        made["spec"]["finalizers"].append("example.com/more")
        changed = await asgi("PUT", f"{NAMESPACES}/n/finalize", made)
        assert changed.json["spec"]["finalizers"] == ["kubernetes", "example.com/more"]
        assert "new" not in changed.json["metadata"]["labels"]


async def test_it_knows_nothing_but_updates() -> None:
    async with open_asgi() as asgi:
        await asgi("POST", NAMESPACES, {"metadata": {"name": "n"}})
        for method in ("GET", "PATCH", "POST", "DELETE"):
            answer = await asgi(method, f"{NAMESPACES}/n/finalize", {}, content_type="application/merge-patch+json")
            assert answer.status == 405, method
