"""What verifiers of tokens read."""

from __future__ import annotations

from cathedra.apiserver.config import ServerConfig
from tests.unit.apiserver.asgi import open_asgi

KEYS = "/openid/v1/jwks"


async def test_the_issuers_document_leads_to_its_keys() -> None:
    async with open_asgi(ServerConfig(service_accounts=True)) as client:
        document = await client("GET", "/.well-known/openid-configuration", host="api.example.com:6443")
        assert document.json["jwks_uri"] == f"https://api.example.com:6443{KEYS}"
        assert document.json["response_types_supported"] == ["id_token"]
        keys = await client("GET", KEYS)
        assert keys.header("content-type") == "application/jwk-set+json"
        assert keys.json["keys"]
        assert not {"d", "p", "q"} & set(keys.json["keys"][0]), "the public half alone"


async def test_both_may_be_kept_for_an_hour() -> None:
    async with open_asgi(ServerConfig(service_accounts=True)) as client:
        for path in ("/.well-known/openid-configuration", KEYS):
            values = [value for key, value in (await client("GET", path)).headers if key == "cache-control"]
            assert "public, max-age=3600" in values
