"""Log lines: time, level and part of each, and the way back from a part to its lines."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from cathedra.cluster.process.logs import NODE, configure_logging, lines_of, part_of


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """The test runner's own handlers are there again afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("cathedra")
    before = (root.handlers, root.level, ours.level)
    yield
    root.handlers = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


@pytest.mark.parametrize(
    ("logger", "part"),
    [
        ("cathedra.scheduler.failure", "scheduler"),
        ("cathedra.controllers.job", "controller-manager"),
        ("cathedra.cluster", "cluster"),
        ("cathedra.client.informer", "cluster"),
        ("aiohttp.client", "aiohttp"),
    ],
)
def test_the_part_follows_from_the_logger(logger: str, part: str) -> None:
    assert part_of(logger) == part


def test_inside_a_node_its_name_is_said() -> None:
    token = NODE.set("node-1")
    try:
        assert part_of("cathedra.node.agent") == "node/node-1"
        assert part_of("cathedra.driver.run") == "driver/node-1"
        assert part_of("cathedra.client.informer") == "node/node-1"
    finally:
        NODE.reset(token)


def test_every_line_has_time_level_and_part() -> None:
    written = io.StringIO()
    configure_logging("info", "text", written)
    logging.getLogger("cathedra.scheduler").info("placed %s", "a/b")
    logging.getLogger("cathedra.scheduler").debug("not this")
    logging.getLogger("library.inner").warning("careful")
    logging.getLogger("library.inner").info("nor this")
    first, second = written.getvalue().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    scheduler placed a/b", first)
    assert second.endswith("Z WARNING library careful")


def test_json_lines_are_whole_objects_also_with_a_traceback() -> None:
    written = io.StringIO()
    configure_logging("debug", "json", written)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("cathedra.apiserver.http").exception("a request failed")
    (line,) = written.getvalue().splitlines()
    said = json.loads(line)
    assert (said["level"], said["part"], said["message"]) == ("error", "apiserver", "a request failed")
    assert "ValueError: broken" in said["exception"]


@pytest.mark.parametrize("style", ["text", "json"])
def test_lines_are_found_by_part_and_by_node(style: str) -> None:
    written = io.StringIO()
    configure_logging("info", style, written)  # type: ignore[arg-type]
    logging.getLogger("cathedra.scheduler").info("one")
    token = NODE.set("node-1")
    logging.getLogger("cathedra.node.agent").info("two")
    logging.getLogger("cathedra.driver.run").info("three")
    NODE.reset(token)
    lines = written.getvalue().splitlines()
    assert list(lines_of(lines, "")) == lines
    assert list(lines_of(lines, "scheduler")) == lines[:1]
    assert list(lines_of(lines, "node-1")) == lines[1:]
    assert list(lines_of(lines, "node")) == lines[1:2]
    assert list(lines_of(lines, "etcd")) == []


def test_a_traceback_belongs_to_the_line_above_it() -> None:
    lines = [
        "2026-03-01T12:00:00.123Z ERROR   node oops",
        "Traceback …",
        "2026-03-01T12:00:00.123Z INFO    scheduler b",
    ]
    assert list(lines_of(lines, "node")) == lines[:2]


FIELDS = {"fields": {"driver": "gpu.example.com", "claim": "c", "said": 'no "power"', "call": 3}}


def test_fields_end_a_line_as_words() -> None:
    written = io.StringIO()
    configure_logging("info", "text", written)
    logging.getLogger("cathedra.driver").info("prepare claim", extra=FIELDS)
    line = written.getvalue().strip()
    assert line.endswith('driver prepare claim driver=gpu.example.com claim=c said="no \\"power\\"" call=3')


def test_fields_are_fields_of_a_json_line_and_replace_none_of_its_own() -> None:
    written = io.StringIO()
    configure_logging("info", "json", written)
    logging.getLogger("cathedra.driver").info("prepare", extra={"fields": {**FIELDS["fields"], "level": "odd"}})
    said = json.loads(written.getvalue())
    assert (said["driver"], said["claim"], said["call"], said["level"]) == ("gpu.example.com", "c", 3, "info")
