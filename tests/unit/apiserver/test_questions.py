"""Questions about built-in kinds and requests: one mistake each, and the error that Kubernetes reports for it.

`question_bases.txt` has a valid object of each kind, `questions.txt` what is changed in it and the answer. The requests
are dry runs, so no question changes the answer to another.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cathedra.apiserver.config import ServerConfig
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

FOLDER = Path(__file__).parent
DEFAULT = "/api/v1/namespaces/default"
TEXTS = {
    "label": "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    "subdomain": "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    "name part": "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    "value": "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    "percent": "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')",
    "environment": "a valid environment variable name must consist only of printable ASCII characters other than '='",
    "key": "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    "least zero": "must be greater than or equal to 0",
}
CHANGE = re.compile(r"([\w.]+)=(.*?)(?= [a-z]\w*(?:\.\w+)*=|$)")


def questions() -> dict[str, list[tuple[str, str]]]:
    """Return the changes and answers of each kind."""
    found: dict[str, list[tuple[str, str]]] = {}
    lines = (line for line in (FOLDER / "questions.txt").read_text().splitlines() if line and line[0] != "#")
    for line in lines:
        if line.startswith("["):
            asked = found.setdefault(line[1:-1], [])
        else:
            asked.append((line, next(lines).strip()))
    return found


def bases() -> Iterator[tuple[str, str, str]]:
    for line in (FOLDER / "question_bases.txt").read_text().splitlines()[1:]:
        kind, path, body = line.split(" ", 2)
        yield kind, path, body


def changed(body: str, changes: str) -> Any:
    """Return a copy of the object with each ``path=JSON`` of ``changes`` put in."""
    value = json.loads(body)
    for path, given in CHANGE.findall(changes):
        *above, last = path.split(".")
        at = value
        for part in above:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if isinstance(at, list):
            at[int(last) : int(last) + 1] = [json.loads(given)]
        else:
            at[last] = json.loads(given)
    return value


async def answer(asgi: ASGIClient, path: str, body: Any) -> str:
    """Return the errors of a dry run in short: without the name of the object, long texts by their keys."""
    reply = await asgi("POST", f"{path}?dryRun=All&fieldValidation=Strict", body)
    if reply.status == 201:
        return "accepted"
    text = re.sub(r'^\S+ "[^"]*" is invalid: ', "", reply.json["message"])
    for key, long in TEXTS.items():
        text = text.replace(long, f"{{{key}}}")
    return text if reply.status == 422 else f"{reply.status} {text}"


@pytest.mark.parametrize(("kind", "path", "body"), list(bases()))
def test_kubernetes_errors_are_reported_for_mistakes_in(kind: str, path: str, body: str) -> None:
    async def ask() -> list[str]:
        async with open_asgi(ServerConfig(release="1.37")) as asgi:
            await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            assert await answer(asgi, path, json.loads(body)) == "accepted"
            return [await answer(asgi, path, changed(body, changes)) for changes, _ in asked]

    asked = questions()[kind]
    shown = asyncio.run(ask())
    assert dict(zip((changes for changes, _ in asked), shown, strict=True)) == dict(asked)


def requests() -> Iterator[tuple[str, str]]:
    """Yield each request of `question_requests.txt` with its answer."""
    lines = [line for line in (FOLDER / "question_requests.txt").read_text().splitlines() if line[0] != "#"]
    yield from zip(lines[::2], map(str.strip, lines[1::2]), strict=True)


async def test_kubernetes_errors_are_reported_for_mistakes_in_requests() -> None:
    shown: dict[str, str] = {}
    async with open_asgi(ServerConfig(release="1.37")) as asgi:
        await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        await asgi("POST", f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
        await asgi("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
        for request, _ in requests():
            method, path, media, body = (*request.split(" ", 3), "", "")[:4]
            media = media if "/" in media else f"application/{media}"
            reply = await asgi(method, path, body.encode() or None, content_type=media)
            shown[request] = f"{reply.status} {reply.json['message'] if reply.status >= 300 else 'accepted'}"
    assert shown == dict(requests())
