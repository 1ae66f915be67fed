"""Write the table of dependencies in docs/releasing.md: reasons from here, wheels from the package index.

python tools/dependencies.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "releasing.md"
BEGIN: Final = "<!-- dependencies -->\n"
END: Final = "<!-- /dependencies -->"
TAGS: Final = ("cp311", "cp312", "cp313", "cp314", "cp315", "cp314t")

REASONS: Final = {
    "aiohttp": ("HTTP client of remote API servers", "httpx"),
    "cryptography": ("certificates and keys", "openssl, called as a program"),
    "google-re2": ("RE2 for CEL and schemas", "pyre2, or the automaton in `cathedra.cel.regex`"),
    "grpcio": ("plugin sockets and etcd", "nothing: its peers are Go's gRPC"),
    "httptools": ("parser of HTTP requests", "h11, which is written in Python"),
    "nvidia-ml-py": ("extra `nvidia`: the library of NVIDIA's GPUs", "ctypes on libnvidia-ml"),
    "mcp": ("extra `mcp`: the protocol of agents", "JSON-RPC of our own, with each revision of the protocol"),
    "msgspec": ("object model and JSON", "attrs and a JSON library"),
    "prometheus-client": ("metrics", "`cathedra.exposition`, which writes the same text"),
    "prompt-toolkit": ("line editor of `kubectl dra repl`", "readline, without hints"),
    "protobuf": ("messages of gRPC", "nothing: grpcio's stubs need it"),
    "PyJWT": ("service account tokens", "cryptography, with checks of our own"),
    "pyre2": ("RE2 where google-re2 has no wheel", "the automaton in `cathedra.cel.regex`"),
    "PyYAML": ("manifests and kubeconfig", "ruamel.yaml"),
    "rich": ("tables on a terminal", "plain text"),
    "uvloop": ("event loop", "asyncio's own loop"),
    "websockets": ("exec, attach and port forwarding", "wsproto"),
}
"""Purpose of a dependency, and its possible replacement."""


def dependencies() -> dict[str, str]:
    """Return the lowest allowed version of each dependency, those of the extras for users included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared: list[str] = project["dependencies"] + extras["nvidia"] + extras["mcp"]
    return dict(re.match(r"([\w-]+)>=([\w.]+)", text).groups() for text in declared)  # type: ignore[union-attr,misc]


def table() -> str:
    """Return the table, with the files of each newest release as the index has them."""
    head = ("dependency", "at least", "why", "since", "newest", *TAGS, "instead")
    rows = [head, ("---",) * len(head)]
    for name, lowest in dependencies().items():
        why, instead = REASONS[name]
        version, marks = _wheels(name)
        rows.append((name, lowest, why, _since(name), version, *marks, instead))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _since(name: str) -> str:
    """Return the day on which the dependency was declared first."""
    log = ["git", "-C", str(ROOT), "log", "--reverse", "--format=%as", f'-S"{name}>=', "--", "pyproject.toml"]
    return subprocess.run(log, check=True, capture_output=True, text=True).stdout.split()[0]


def _wheels(name: str) -> tuple[str, list[str]]:
    # inside: an environment that uv made has no pip, and tests of the table need none
    from pip._internal.models.index import PyPI

    url = f"{PyPI.simple_url}/{name.lower()}/"
    request = urllib.request.Request(url, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request) as answer:
        files: list[dict[str, Any]] = json.load(answer)["files"]
    wheels = [
        (file["upload-time"][:10], *file["filename"].removesuffix(".whl").split("-"))
        for file in files
        if file["filename"].endswith(".whl") and re.fullmatch(r"[\d.]+", file["filename"].split("-")[1])
    ]
    version = max(wheels, key=lambda wheel: wheel[0])[2]
    tags = {(wheel[-3], wheel[-2]) for wheel in wheels if wheel[2] == version and _is_linux(wheel[-1])}
    return version, ["yes" if any(_fits(tag, *pair) for pair in tags) else "no" for tag in TAGS]


def _is_linux(platform: str) -> bool:
    return platform == "any" or ("manylinux" in platform and "x86_64" in platform)


def _fits(tag: str, python: str, abi: str) -> bool:
    if abi == "none" and "py3" in python:
        return True
    if tag.endswith("t"):
        return abi == tag
    return (python, abi) == (tag, tag) or ("abi3" in abi.split(".") and int(python[3:]) <= int(tag[3:]))


def main() -> int:
    """Write the table between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
