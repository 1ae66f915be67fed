"""A request that creates an object needs the right to create, whatever its verb."""

from __future__ import annotations

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

RBAC = "rbac.authorization.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
EVE = "eve-token"


async def grant(asgi: ASGIClient, *verbs: str) -> None:
    """Give eve these verbs on config maps."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
    name = "-".join(verbs)
    made = await asgi("POST", f"/apis/{RBAC}/v1/clusterroles", {"metadata": {"name": name}, "rules": rules})
    assert made.status == 201, made.body
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "eve"}],
    }
    assert (await asgi("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)).status == 201


async def apply(asgi: ASGIClient, name: str) -> Answer:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"a": "b"}}
    path = f"{MAPS}/{name}?fieldManager=eve"
    return await asgi("PATCH", path, body, content_type="application/apply-patch+yaml", user=EVE)


async def test_an_apply_that_creates_needs_create_as_well_as_patch() -> None:
    async with open_asgi(ServerConfig(authorization=True)) as asgi:
        asgi.server.context.static_tokens.add({EVE: UserInfo("eve")})
        await grant(asgi, "patch")
        refused = await apply(asgi, "new")
        assert (refused.status, refused.json["message"]) == (403, 'configmaps "new" is forbidden: ')
        assert (await asgi("GET", f"{MAPS}/new")).status == 404
        await asgi("POST", MAPS, {"metadata": {"name": "old"}})
        assert (await apply(asgi, "old")).status == 200
        await grant(asgi, "create")
        assert (await apply(asgi, "new")).status == 201
