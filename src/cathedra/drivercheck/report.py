"""Reports of a driver check: lines for a terminal, JUnit for CI, a page to read and a badge for a README.

A level (`cathedra.drivercheck.check.LEVELS`) is ``passed`` when none of its checks failed and at least one passed, and
``not offered`` when all were skipped: the driver publishes nothing of that kind.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from cathedra.drivercheck.check import LEVELS, PluginCheckResult

_SIGNS: Final = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


@dataclass(frozen=True, slots=True)
class LevelVerdict:
    """Verdict on one level: ``passed``, ``failed`` or ``not offered``, and the number of checks by outcome."""

    name: str
    verdict: str
    passed: int
    failed: int
    skipped: int


def levels(results: Sequence[PluginCheckResult]) -> tuple[LevelVerdict, ...]:
    """Return the verdict on each level of which a check was run."""
    return tuple(
        _level(name, found) for name in LEVELS if (found := [one for one in results if one.check.level == name])
    )


def _level(name: str, results: Sequence[PluginCheckResult]) -> LevelVerdict:
    passed, failed, skipped = (sum(one.outcome == outcome for one in results) for outcome in _SIGNS)
    verdict = "failed" if failed else "passed" if passed else "not offered"
    return LevelVerdict(name, verdict, passed, failed, skipped)


def line(result: PluginCheckResult) -> str:
    """Return one line for a check."""
    # One line per check, so that output can be filtered.
    reason = f": {' '.join(result.reason.split())}" if result.reason else ""
    return f"{_SIGNS[result.outcome]} {result.check.name} – {result.check.rule} ({result.check.source}){reason}"


def total(results: Sequence[PluginCheckResult]) -> str:
    """Return the number of checks by outcome."""
    counts = {outcome: sum(one.outcome == outcome for one in results) for outcome in _SIGNS}
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def level_lines(results: Sequence[PluginCheckResult]) -> list[str]:
    """Return one line for each level."""
    return [f"level {one.name}: {_verdict(one)}" for one in levels(results)]


def _verdict(one: LevelVerdict) -> str:
    if one.verdict == "failed":
        return f"failed ({one.failed} of {one.passed + one.failed})"
    skipped = f", {one.skipped} skipped" if one.passed and one.skipped else ""
    return f"{one.verdict} ({one.passed}{skipped})" if one.passed else one.verdict


def junit(driver: str, results: Sequence[PluginCheckResult]) -> bytes:
    """Return the results as a JUnit document, which CI systems show."""
    suite = ElementTree.Element(
        "testsuite",
        name=driver,
        tests=str(len(results)),
        failures=str(sum(one.outcome == "failed" for one in results)),
        skipped=str(sum(one.outcome == "skipped" for one in results)),
        time=f"{sum(one.seconds for one in results):.3f}",
    )
    for one in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{driver}.{one.check.level}", name=one.check.name, time=f"{one.seconds:.3f}"
        )
        if one.outcome == "failed":
            ElementTree.SubElement(case, "failure", message=one.reason).text = f"{one.check.rule} ({one.check.source})"
        elif one.outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=one.reason)
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + ElementTree.tostring(suite, encoding="unicode").encode()


_STYLE: Final = """\
:root{color-scheme:light dark;--ok:#1a7f37;--bad:#c62828;--none:#6a737d}
@media(prefers-color-scheme:dark){:root{--ok:#3fb950;--bad:#ff7b72;--none:#9aa4ae}}
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid #8884}
.passed{color:var(--ok)}.failed{color:var(--bad);font-weight:600}.skipped,.absent{color:var(--none)}
td p{margin:.2rem 0 0;overflow-wrap:anywhere}
"""


def page(driver: str, services: Sequence[str], results: Sequence[PluginCheckResult]) -> bytes:
    """Return a page of its own, without scripts and without another file: levels, then every check with its source.

    The same results make the same bytes: no time of day and no duration is on the page.
    """
    head = f"<title>{_text(driver)}: driver check</title><style>\n{_STYLE}</style>"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{head}</head>',
        f"<body><h1>{_text(driver)}</h1>",
        f"<p>{total(results)}. Services: {_text(', '.join(services) or 'none')}.</p>",
        _table(("Level", "Verdict"), [_level_row(one) for one in levels(results)]),
        _table(("Result", "Check", "Rule", "Source"), [_check_row(one) for one in results]),
        "</body></html>\n",
    ]
    return "\n".join(parts).encode()


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    return "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *rows, "</tbody></table>"])


def _level_row(one: LevelVerdict) -> str:
    css = {"not offered": "absent"}.get(one.verdict, one.verdict)
    return f'<tr><td>{_text(one.name)}</td><td class="{css}">{_text(_verdict(one))}</td></tr>'


def _check_row(one: PluginCheckResult) -> str:
    reason = f"<p>{_text(one.reason)}</p>" if one.reason else ""
    cells = (
        f"<td>{_text(one.check.name)}</td><td>{_text(one.check.rule)}{reason}</td><td>{_text(one.check.source)}</td>"
    )
    return f'<tr><td class="{one.outcome}">{one.outcome}</td>{cells}</tr>'


def _text(value: str) -> str:
    # Reasons hold what a driver answers: markup in them must not become markup of the page.
    return html.escape(value)


_LETTER: Final = 6.6
"""Mean width of a letter at 11 px, in pixels: `textLength` corrects what a font does otherwise."""
_GREEN, _RED, _GREY = "#2e7d32", "#c62828", "#555"


def badge(results: Sequence[PluginCheckResult]) -> bytes:
    """Return an SVG badge with the levels that passed; red, with those that failed, if one did."""
    found = levels(results)
    failed = [one.name for one in found if one.verdict == "failed"]
    passed = [one.name for one in found if one.verdict == "passed"]
    text = f"failed: {', '.join(failed)}" if failed else ", ".join(passed) or "nothing checked"
    colour = _RED if failed else _GREEN if passed else _GREY
    return _drawn("DRA driver", text, colour).encode()


def _drawn(left: str, right: str, colour: str) -> str:
    first, second = (round(len(one) * _LETTER) + 14 for one in (left, right))
    title = html.escape(f"{left}: {right}")
    texts = "".join(
        f'<text x="{start + width / 2:g}" y="14" textLength="{width - 14}">{html.escape(one)}</text>'
        for one, start, width in ((left, 0, first), (right, first, second))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{first}" height="20" fill="{_GREY}"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="{colour}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">{texts}</g>'
        "</svg>\n"
    )
