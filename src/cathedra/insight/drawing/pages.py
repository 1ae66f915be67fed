"""Pages of reports: an explanation with its funnels, a simulation with its differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from cathedra.insight.drawing.devices import STATES, WIDTH, Model, devices_svg, style_sheet
from cathedra.printable import counted, printable

_SHOWN: Final = 200
"""Rows of a table; more are counted."""
_STYLE: Final = (
    f"{style_sheet('.cathedra-report')}"
    ".cathedra-report{max-width:1000px;margin:0 auto;padding:12px 16px;overflow-wrap:anywhere}"
    ".cathedra-report h1{font-size:18px}.cathedra-report h2{font-size:15px;margin:18px 0 6px}"
    ".cathedra-report h3{font-size:13px;margin:12px 0 4px}"
    ".cathedra-report table{border-collapse:collapse}.cathedra-report th,.cathedra-report td{text-align:left;"
    "padding:2px 14px 2px 0;vertical-align:top;font-weight:normal}.cathedra-report thead th{color:var(--faint)}"
    ".cathedra-report .number{text-align:right}.cathedra-report .soft{color:var(--faint)}"
    ".cathedra-report pre{background:var(--panel);padding:8px;white-space:pre-wrap}"
    ".cathedra-report .box{border:1px solid var(--line);padding:6px 10px;margin:8px 0}"
    ".cathedra-report ol{list-style:none;padding:0;margin:6px 0;max-width:640px}"
    ".cathedra-report li{display:flex;justify-content:space-between;gap:12px;padding:3px 6px;margin:2px 0}"
    ".cathedra-report svg{max-width:100%;height:auto}"
)
_HELD: Final = STATES["held"][0]


def page(title: str, fragment: str) -> str:
    """Return a whole document. Its policy forbids scripts and every request."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<style>body{margin:0;background:#fff}@media(prefers-color-scheme:dark){body{background:#14171a}}</style>"
        f"<title>{_text(title)}</title></head><body><main>{fragment}</main></body></html>\n"
    )


def explanation_html(answer: Model, devices: Model | None = None, width: int = WIDTH) -> str:
    """Return an Explanation, or an overview of several, as a fragment of a page; with a picture of the devices."""
    overview = answer["kind"] == "ExplanationOverview"
    body = _overview(answer) if overview else _explanation(answer, 1)
    return _report((*body, *_picture(devices, width, {})))


def simulation_html(answer: Model, devices: Model | None = None, width: int = WIDTH) -> str:
    """Return a Simulation as a fragment of a page, with a picture of the devices: those that would be taken are framed,
    and those given back have a dashed frame."""
    return _report((*_simulation(answer), *_picture(devices, width, _difference(answer))))


def _report(parts: Iterable[str]) -> str:
    return f'<div class="cathedra-report"><style>{_STYLE}</style>{"".join(parts)}</div>'


def _picture(devices: Model | None, width: int, lit: Mapping[str, str]) -> Iterator[str]:
    if devices is not None and devices["devices"]:
        yield "<h2>Devices</h2>"
        if lit:
            yield '<p class="soft">framed: would be taken; dashed: would be given back</p>'
        yield devices_svg(devices, width, lit)


# --- explanations


def _overview(answer: Model) -> Iterator[str]:
    yield f"<h1>What waits in {_text(answer['where'])}</h1>"
    if not answer["groups"]:
        yield "<p>Nothing waits.</p>"
    for group in answer["groups"]:
        nodes = group["cause"]["nodes"]
        where = f' <span class="soft">on {counted(nodes, "node")}</span>' if nodes is not None else ""
        cause = f"<strong>{_text(group['cause']['text'])}</strong>"
        yield f'<div class="box">{cause}{where}<br>{_names(group["subjects"])}</div>'
    yield from _notes(answer)


def _explanation(found: Model, level: int) -> Iterator[str]:
    yield f"<h{level}>{_text(found['subject'])}</h{level}><p><strong>{_text(found['summary'])}</strong></p>"
    for part in found["parts"]:
        yield from _explanation(part, 2)
    if not found["parts"]:
        for cause in found["causes"]:
            if cause["text"] != found["summary"]:
                yield f"<p>{_text(cause['text'])}</p>"
    for group in found["groups"]:
        yield from _group(group)
    if found["changes"]:
        yield "<h2>What would help (tried)</h2>"
    for change in found["changes"]:
        commands = f"<pre>{_text(chr(10).join(change['commands']))}</pre>" if change["commands"] else ""
        fits = f'<div class="soft">then it fits on {_names(change["fitsOn"])}</div>'
        yield f'<div class="box">{_text(change["text"])}{fits}{commands}</div>'
    if found["claims"]:
        yield from _claims(found["claims"])
    if level == 1:
        yield from _notes(found)


def _group(group: Model) -> Iterator[str]:
    yield f"<h2>On {_names(group['nodes'])}</h2>"
    if group["fits"]:
        yield "<p>It fits.</p>"
    yield from (f"<p>{_text(text)}</p>" for text in group["outside"])
    if group["refusal"] and not group["requests"]:
        yield f"<p>{_text(group['refusal'])}</p>"
    for request in group["requests"]:
        wanted = "all" if request["allDevices"] else request["wanted"]
        yield f'<div class="box"><strong>{_text(request["request"])}</strong> '
        yield f'<span class="soft">{wanted} × {_text(request["deviceClass"])}</span>{_funnel(request["steps"])}'
        yield f"{_text(request['text'])}</div>"


def _funnel(steps: Sequence[Model]) -> str:
    """Return the steps as bars: the devices that are left, of those at the beginning."""
    most = max((step["left"] + step["lost"] for step in steps), default=0) or 1
    lines = []
    for step in steps:
        share = 100 * step["left"] / most
        detail = f' <span class="soft">{_text(step["detail"])}</span>' if step["detail"] else ""
        lost = f' <span class="soft">(−{step["lost"]})</span>' if step["lost"] else ""
        bar = f"background:linear-gradient(to right,{_HELD}44 {share:.1f}%,var(--panel) {share:.1f}%)"
        lines.append(
            f'<li style="{bar}"><span>{_text(step["test"])}{detail}</span><span>{step["left"]}{lost}</span></li>'
        )
    return f'<ol aria-label="Devices left after each test">{"".join(lines)}</ol>'


def _claims(claims: Sequence[Model]) -> Iterator[str]:
    rows = [
        (one["name"], one["state"], one["since"], ", ".join(device["device"] for device in one["devices"]))
        for one in claims
    ]
    yield "<h2>Claims</h2>"
    yield _table(("claim", "state", "since", "devices"), rows)


# --- simulations


def _simulation(found: Model) -> Iterator[str]:
    waiting = sum(len(one["pods"]) for one in found["pending"] if not one["before"])
    placed, gone = len(found["placed"]), len(found["gone"])
    yield f"<h1>{placed:,} placed, {gone:,} gone, {waiting:,} without a node</h1>"
    yield f'<p class="soft">after {found["seconds"]:g} s of the cluster\'s time</p>'
    for group in found["pending"]:
        word = "waited before" if group["before"] else "without a node"
        pods = counted(len(group["pods"]), "pod")
        yield f'<div class="box"><strong>{pods} {word}</strong>: {_text(group["why"])}<br>'
        yield f'<span class="soft">{_names(group["pods"])}</span></div>'
    for copies in found["copies"]:
        least = "at least " if copies["limited"] else ""
        yield f"<p>{least}{copies['more']:,} more of {_text(copies['of'])} fit</p>"
    if found["placed"]:
        yield "<h2>Placed</h2>"
        rows = [(one["pod"], _move(one), _devices_of(one["devices"])) for one in found["placed"]]
        yield _table(("pod", "node", "devices"), rows)
    if found["gone"]:
        yield "<h2>Gone</h2>"
        yield _table(
            ("pod", "node", "devices"),
            [(one["pod"], one["node"], _devices_of(one["devices"])) for one in found["gone"]],
        )
    if found["nodes"]:
        yield "<h2>Devices in use</h2>"
        changes = [
            (one["node"], str(one["heldBefore"]), str(one["heldAfter"]), str(one["devices"])) for one in found["nodes"]
        ]
        yield _table(("node", "before", "after", "of"), changes)
    yield from (f"<p>{_text(text)}</p>" for text in found["failures"])
    yield from _notes(found)


def _move(one: Model) -> str:
    return f"{one['before']} → {one['node']}" if one["before"] else str(one["node"])


def _devices_of(devices: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(name.rpartition("/")[2] for names in devices.values() for name in names)


def _difference(found: Model) -> dict[str, str]:
    lit: dict[str, str] = {}
    for kind, field, pods in (
        ("old", "devices", found["gone"]),
        ("old", "devicesBefore", found["placed"]),
        ("new", "devices", found["placed"]),
    ):
        lit.update((name, kind) for pod in pods for names in pod[field].values() for name in names)
    return lit


# --- parts


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{_text(one)}</th>' for one in head)
    lines = "".join(
        f'<tr><th scope="row">{_text(row[0])}</th>{"".join(f"<td>{_text(one)}</td>" for one in row[1:])}</tr>'
        for row in rows[:_SHOWN]
    )
    more = f"<p>and {len(rows) - _SHOWN:,} more</p>" if len(rows) > _SHOWN else ""
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _notes(found: Model) -> Iterator[str]:
    return (f'<p class="soft">! {_text(note["text"])}</p>' for note in found["notes"])


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return _text(", ".join(names[:8])) + more


def _text(text: Any) -> str:
    return escape("\n".join(printable(line) for line in str(text)[:20_000].split("\n")))
