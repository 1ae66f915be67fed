"""Texts of validation errors of resource.k8s.io: each that Kubernetes writes must be one that Cathedra writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["differences", "read_texts"]

SUBJECT = "texts"
FILES = (
    "pkg/apis/resource/validation/validation.go",
    "pkg/registry/resource/resourceclaim/strategy.go",
    "pkg/registry/resource/resourceclaimtemplate/strategy.go",
    "pkg/registry/resource/resourceslice/strategy.go",
    "pkg/registry/resource/devicetaintrule/strategy.go",
    "pkg/registry/resource/deviceclass/strategy.go",
)
SOURCE = Path(__file__).parents[2] / "src" / "cathedra"
PLACES = ("kinds", "api/field.py", "api/formats.py", "apiserver/admission", "cel")
_CALL = re.compile(r"field\.(?:Invalid|Required|Forbidden|NotSupported|TooMany|TypeInvalid|InternalError)\((.*)\)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_VERB = re.compile(r"%[-+#0-9.]*[a-zA-Z]")
_HOLE = "\0"
_SHORTEST = 10


def read_texts(text: str) -> Iterator[str]:
    """Yield the texts of the errors in a file, with a null character for each inserted value."""
    for line in text.splitlines():
        found = _CALL.search(line)
        for quoted in _QUOTED.findall(found[1]) if found else ():
            text_of_error = _VERB.sub(_HOLE, re.sub(r"\\(.)", r"\1", quoted))
            if _is_telling(text_of_error):
                yield text_of_error


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield texts of Kubernetes that no module of Cathedra has."""
    del release
    for file in FILES:
        text = source.read(file)
        for theirs in sorted(set(read_texts(text or ""))):
            if not any(_matches(theirs, one) for one in _our_texts()):
                yield Difference(SUBJECT, theirs.replace(_HOLE, "…"), "writes it", "does not", file)


def _is_telling(text: str) -> bool:
    """Return True if a text has enough words of its own to be compared: ``%s: %v`` matches everything."""
    return " " in text and len(text.replace(_HOLE, "")) >= _SHORTEST


def _matches(theirs: str, ours: str) -> bool:
    if theirs == ours:
        return True
    # Either side may insert a value that the other writes as text: a limit is a constant in one and a number in the
    # other.
    return _HOLE in theirs + ours and bool(_pattern(theirs).fullmatch(ours) or _pattern(ours).fullmatch(theirs))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, text.split(_HOLE))), re.S)


@cache
def _our_texts() -> tuple[str, ...]:
    found: set[str] = set()
    for place in PLACES:
        path = SOURCE / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                    found.add(node.value)
                elif isinstance(node, ast.JoinedStr):
                    parts = (one.value if isinstance(one, ast.Constant) else _HOLE for one in node.values)
                    found.add("".join(map(str, parts)))
    return tuple(sorted(filter(_is_telling, found)))
