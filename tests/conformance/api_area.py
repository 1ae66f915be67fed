"""Replays the requests of ``vectors/api`` to a Kubernetes API server on Cathedra's (see that folder's README).

The server runs in this process, in virtual time, as release 1.36 with the gates that a case names; requests go straight
into its ASGI application. Every case gets a server of its own on an empty memory store.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cathedra.api.core.core_v1 import Namespace, ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.resources import NAMESPACES, SERVICEACCOUNTS
from cathedra.client.transport import APICall
from cathedra.clock import LoopClock, VirtualTimeLoop
from cathedra.kinds.definition import ResourceDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.conformance.api_shapes import shaped
from tests.conformance.vectorfiles import cases, vector_files

Result = tuple[str, str, bool, str]

RELEASE = "1.36"
TOKEN = "conformance"
ALPHA = (
    "DRADeviceTaintRules",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAResourcePoolStatus",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "GangScheduling",
)
SWITCHABLE = (
    "DRAPrioritizedList",
    "DRADeviceTaints",
    "DRADeviceTaintRules",
    "DRAConsumableCapacity",
    "DRAResourceClaimDeviceStatus",
    "DRADeviceBindingConditions",
    "DRAPartitionableDevices",
    "DRANodeAllocatableResources",
    "DRAListTypeAttributes",
    "DRAExtendedResource",
    "DRAResourcePoolStatus",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "GangScheduling",
    "ResourceHealthStatus",
    "ResourceHealthStatusMessage",
)
"""Gates of the specification's table 1.6 that release 1.36 lets one switch off, with those that depend on them."""
MORE_VERSIONS = (
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha2",
)


def run(folder: Path) -> Iterator[Result]:
    """One result per case of every file."""
    for name, path in vector_files(folder).items():
        for case in cases(path):
            difference = play(case)
            yield name, case["id"], not difference, difference


def play(case: dict[str, Any]) -> str:
    """The first difference of a case, or ""."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(Play(case).run())
    except Exception as error:
        import traceback

        return f"crashed: {''.join(traceback.format_exception(error)[-3:])}"
    finally:
        loop.close()


@cache
def gates_of(name: str) -> FeatureGates:
    """The gates of a column of the vectors."""
    overrides: dict[str, bool] = {}
    if name == "all":
        overrides = dict.fromkeys(ALPHA, True)
    elif name == "off":
        overrides = dict.fromkeys(SWITCHABLE, False)
    return FeatureGates.for_release(RELEASE, overrides)


@cache
def definitions_of(name: str) -> tuple[ResourceDefinition[Any], ...]:
    """The definitions under these gates."""
    return all_definitions(gates_of(name))


def config_of(name: str) -> ServerConfig:
    """The server of a column."""
    more = {} if name == "default" else dict.fromkeys(MORE_VERSIONS, True)
    return ServerConfig(
        release=RELEASE,
        gates=gates_of(name),
        definitions=definitions_of(name),
        runtime_config=more,
        authorization=True,
        service_accounts=True,
        node_lifecycle=True,
    )


@dataclass
class Answer:
    """Response over ASGI."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str:
        """A header's value."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def value(self) -> Any:
        """The body's JSON, or its text."""
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode("utf-8", "replace")


class Play:
    """One case on a server of its own."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case
        self._servers: dict[str, APIServer] = {}
        self._answers: list[Any] = []
        self._matcher = Matcher()

    async def run(self) -> str:
        """Send all steps; the first difference, or ""."""
        clock = LoopClock(asyncio.get_running_loop())
        name = self._case["gates"]
        first = await APIServer.open(config_of(name), clock=clock, random=random.Random(7))
        self._servers[name] = first
        await prepare(first)
        for number, step in enumerate(self._case["steps"]):
            difference = await self._step(step)
            if difference:
                return f"step {number} ({step['method']} {step['path']}): {difference}"
        return ""

    def _server(self, name: str) -> APIServer:
        if name not in self._servers:
            first = next(iter(self._servers.values()))
            self._servers[name] = first.beside(config_of(name))
        return self._servers[name]

    async def _step(self, step: dict[str, Any]) -> str:
        if "wait" in step:  # a definition or a policy takes effect a little after it is written
            await asyncio.sleep(step["wait"])
        server = self._server(step.get("gates", self._case["gates"]))
        method = "GET" if step["method"] == "WATCH" else step["method"]
        answer = await send(
            server,
            method,
            self._filled(step["path"]),
            self._filled(step.get("query", "")),
            self._headers(step),
            self._body(step),
            until=step.get("until", ""),
        )
        self._answers.append(answer.value)
        return self._judge(step, answer)

    def _judge(self, step: dict[str, Any], answer: Answer) -> str:
        if answer.status != step["status"]:
            return f"status {answer.status}, expected {step['status']}: {answer.body[:1500]!r}"
        if "response" not in step and "events" not in step:
            return ""
        warnings = [value for key, value in answer.headers if key == "warning"]
        if warnings != step.get("warnings", []):
            return f"warnings {warnings}, expected {step.get('warnings', [])}"
        wanted_type = step.get("answer_type", "application/json")
        if wanted_type != answer.header("content-type") and answer.body:
            return f"content type {answer.header('content-type')!r}, expected {wanted_type!r}"
        if wanted_type.partition(";")[0] in {"application/yaml", "application/vnd.kubernetes.protobuf"}:
            return ""
        if "events" in step:
            lines = [json.loads(line) for line in answer.body.splitlines()]
            return self._matcher.compare(step["events"], [self._cleaned(line) for line in lines], "events")
        found = self._cleaned(answer.value)
        wanted = self._cleaned(step["response"])
        if self._case["area"].startswith("fuzz/"):
            found = fuzz_summary(found)
        if "shape" in step:
            found = shaped(step["shape"], found)
        return self._matcher.compare(relaxed(wanted, found), relaxed(found, found), "")

    def _cleaned(self, value: Any) -> Any:
        cleaned = without_noise(value, managed=bool(self._case.get("managed") or self._about_ownership()))
        if self._case.get("unordered") and isinstance(cleaned, dict):
            details = cleaned.get("details")
            if isinstance(details, dict) and "causes" in details:
                details["causes"] = sorted(details["causes"], key=_cause_order)
                cleaned.pop("message", None)
        return cleaned

    def _about_ownership(self) -> bool:
        return any(
            "managedFields" in json.dumps(step.get("response", step.get("events"))) for step in self._case["steps"]
        )

    def _headers(self, step: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
        headers = {"user-agent": "vectors/1", "authorization": f"Bearer {TOKEN}"}
        if "body" in step:
            headers["content-type"] = step.get("content_type", "application/json")
        if "accept" in step:
            headers["accept"] = step["accept"]
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        for name, value in step.get("headers", {}).items():
            pairs = [pair for pair in pairs if pair[0] != name.lower().encode()]
            for one in value if isinstance(value, list) else [value]:
                pairs.append((name.lower().encode(), str(one).encode()))
        return pairs

    def _body(self, step: Mapping[str, Any]) -> bytes:
        if "body" not in step:
            return b""
        body = step["body"]
        text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        if "repeat" in step:
            text = text.replace("$(fill)", "x" * step["repeat"])
        return self._filled(text).encode("utf-8", "surrogatepass")

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\((\d+):([^)]*)\)", lambda match: str(self._looked_up(match)), text)

    def _looked_up(self, match: re.Match[str]) -> Any:
        value = self._answers[int(match[1])]
        for part in match[2].split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return value


def _cause_order(cause: Any) -> str:
    return json.dumps(cause, sort_keys=True)


async def prepare(server: APIServer) -> None:
    """The state in which every case begins."""
    api = server.transport()
    server.context.static_tokens.add({TOKEN: UserInfo("admin", ("system:masters",))})
    for name, labels in (
        ("vec", {}),
        ("vec-other", {}),
        ("vec-admin", {"resource.kubernetes.io/admin-access": "true"}),
    ):
        await api.call(APICall("create", NAMESPACES, "", body=Namespace(metadata=ObjectMeta(name=name, labels=labels))))
        account = ServiceAccount(metadata=ObjectMeta(name="default"))
        await api.call(APICall("create", SERVICEACCOUNTS, name, body=account))


async def send(
    server: APIServer,
    method: str,
    path: str,
    query: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    *,
    until: str = "",
) -> Answer:
    """One request straight into the application; a stream is read to its end, or up to ``until``."""
    answer = Answer()
    done = asyncio.Event()
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if requests:
            return requests.pop()
        await done.wait()
        return {"type": "http.disconnect"}

    async def take(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in message["headers"]]
        elif message["type"] == "http.response.body":
            answer.body += message.get("body", b"")
            if until and until.encode() in answer.body:
                lines = answer.body.splitlines(keepends=True)
                end = next(i for i, line in enumerate(lines) if until.encode() in line)
                answer.body = b"".join(lines[: end + 1])
                done.set()

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 6443),
        "scheme": "https",
        "http_version": "1.1",
        "extensions": {},
    }
    await server.app(scope, receive, take)
    return answer


def without_noise(value: Any, *, managed: bool) -> Any:
    """The answer without what the vectors do not record."""
    if isinstance(value, list):
        return [without_noise(item, managed=managed) for item in value]
    if not isinstance(value, dict):
        return value
    cleaned = {}
    for key, item in value.items():
        if key == "managedFields" and not managed:
            continue
        if key == "columnDefinitions" and isinstance(item, list):
            item = [{k: v for k, v in column.items() if k != "description"} for column in item]
        if key == "managedFields" and isinstance(item, list):
            item = sorted(item, key=lambda entry: json.dumps(entry, sort_keys=True))
        cleaned[key] = without_noise(item, managed=managed)
    return cleaned


def fuzz_summary(value: Any) -> Any:
    """Return the part of a response for a damaged object that the vectors keep."""
    if not isinstance(value, dict) or value.get("kind") != "Status":
        return {"kind": value.get("kind")} if isinstance(value, dict) else value
    causes = [
        [cause.get("reason", ""), cause.get("field", ""), cause.get("message", "")]
        for cause in value.get("details", {}).get("causes", [])
    ]
    summary = {"kind": "Status", "reason": value.get("reason", ""), "causes": causes}
    if value.get("code") != 422:
        summary["message"] = value.get("message", "")
    return summary


def relaxed(value: Any, found: Any) -> Any:
    """A failure without the messages that name the other implementation's types (400)."""
    if not isinstance(value, dict) or value.get("kind") != "Status":
        return value
    if value.get("reason") == "BadRequest" and (value.get("code", 400) == 400):
        return {key: item for key, item in value.items() if key != "message"}
    return value


TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})"
PLACEHOLDER = re.compile(r"<(uid|rv):(\d+)>|<(rv|time|suffix|continue|age|hash)>")
PATTERNS = {
    "uid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "rv": r"\d+",
    "time": TIME,
    "suffix": r"[a-z0-9]{5}",
    "continue": r"[A-Za-z0-9_=-]+",
    "age": r"(?:\d+[smhdy])+|<unknown>|<invalid>",
    "hash": r"[0-9A-Fa-f]+",
}


class Matcher:
    """Compares answers with what was recorded, binding placeholders as they appear."""

    def __init__(self) -> None:
        self._bound: dict[str, str] = {}
        self._taken: dict[tuple[str, str], str] = {}

    def compare(self, wanted: Any, found: Any, path: str) -> str:
        """The first difference, or ""."""
        if isinstance(wanted, str) and isinstance(found, str):
            return self._compare_text(wanted, found, path)
        if isinstance(wanted, dict) and isinstance(found, dict):
            return self._compare_dict(wanted, found, path)
        if isinstance(wanted, list) and isinstance(found, list):
            if path.endswith("managedFields"):
                return self._compare_set(wanted, found, path)
            for position, (one, other) in enumerate(zip(wanted, found, strict=False)):
                if difference := self.compare(one, other, f"{path}[{position}]"):
                    return difference
            if len(wanted) != len(found):
                return f"{path}: {len(found)} elements, expected {len(wanted)}: {_short(found)} != {_short(wanted)}"
            return ""
        if type(wanted) is not type(found) and not (
            isinstance(wanted, (int, float)) and isinstance(found, (int, float)) and not isinstance(wanted, bool)
        ):
            return f"{path}: {_short(found)}, expected {_short(wanted)}"
        return "" if wanted == found else f"{path}: {_short(found)}, expected {_short(wanted)}"

    def _compare_dict(self, wanted: dict[str, Any], found: dict[str, Any], path: str) -> str:
        for key, value in wanted.items():
            if key not in found:
                return f"{path}.{key}: missing, expected {_short(value)}; found {_short(found)}"
            if difference := self.compare(value, found[key], f"{path}.{key}"):
                return difference
        more = [key for key in found if key not in wanted]
        return f"{path}: unexpected {', '.join(more)}: {_short(found[more[0]])}" if more else ""

    def _compare_set(self, wanted: list[Any], found: list[Any], path: str) -> str:
        if len(wanted) != len(found):
            return f"{path}: {_short(found)}, expected {_short(wanted)}"
        rest = list(found)
        for item in wanted:
            for candidate in rest:
                trial = Matcher()
                trial._bound, trial._taken = dict(self._bound), dict(self._taken)
                if not trial.compare(item, candidate, path):
                    self._bound, self._taken = trial._bound, trial._taken
                    rest.remove(candidate)
                    break
            else:
                return f"{path}: no {_short(item)} in {_short(rest)}"
        return ""

    def _compare_text(self, wanted: str, found: str, path: str) -> str:
        if wanted == found:
            return ""
        names: list[str] = []
        pattern, end = "", 0
        for match in PLACEHOLDER.finditer(wanted):
            pattern += re.escape(wanted[end : match.start()])
            pattern += f"({PATTERNS[match[1] or match[3]]})"
            names.append(match[0])
            end = match.end()
        pattern += re.escape(wanted[end:])
        matched = re.fullmatch(pattern, found, re.DOTALL) if names else None
        if matched is None:
            return f"{path}: {found!r}, expected {wanted!r}"
        for name, value in zip(names, matched.groups(), strict=True):
            if ":" in name and (problem := self._bind(name, value)):
                return f"{path}: {problem}"
        return ""

    def _bind(self, name: str, value: str) -> str:
        kind = name[1:].partition(":")[0]
        known = self._bound.setdefault(name, value)
        owner = self._taken.setdefault((kind, value), name)
        if known != value:
            return f"{name} is {known}, here {value}"
        return "" if owner == name else f"{value} is both {owner} and {name}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) < 900 else text[:900] + "…"
