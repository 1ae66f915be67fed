"""Write docs/releases.md from `cathedra.releases`: ``python -m tools.release_table``.

The page lists every feature gate with its stage in each release, the versions of kinds, and the behaviours that
change from one release to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cathedra.releases import RELEASES, UNRELEASED, Behaviour, GateState, Stage, behaviours, classic, order, state_of
from cathedra.releases.history import HISTORY, OTHERS
from cathedra.releases.served import SERVED

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "releases.md"


def page() -> str:
    """Return the text of the page."""
    return "\n".join((*_introduction(), *_gates(), *_versions(), *_behaviours())) + "\n"


def _introduction() -> Iterator[str]:
    yield from (
        "# Releases",
        "",
        "What `--kubernetes-version` changes. `python -m tools.release_table` generates this page from",
        "`src/cathedra/releases`. The default is the newest release that is out.",
        "",
        f"Not released yet: {', '.join(sorted(UNRELEASED, key=order))}. Its rows are what its pre-releases show.",
        "",
    )


def _gates() -> Iterator[str]:
    yield from (
        "## Feature gates",
        "",
        "a: alpha. b: beta. g: stable. d: deprecated. l: locked. A capital letter: on by default. ·: there is no such",
        "gate.",
        "",
    )
    yield from _gate_rows(HISTORY)
    yield from (
        "### Gates without an effect",
        "",
        "These gates of Kubernetes are accepted, validated as in Kubernetes, and shown by",
        "`kubernetes_feature_enabled`. They switch nothing in Cathedra. A part whose gate is not at its default names",
        "the gate when it starts. Gates that Kubernetes removed before 1.34 are unknown.",
        "",
    )
    yield from _gate_rows(OTHERS)


def _gate_rows(gates: Iterable[str]) -> Iterator[str]:
    yield from _row("gate", *RELEASES)
    yield from _row("---", *("---" for _ in RELEASES))
    for gate in sorted(gates):
        yield from _row(f"`{gate}`", *(_letter(state_of(gate, release)) for release in RELEASES))
    yield ""


def _letter(state: GateState | None) -> str:
    if state is None:
        return "·"
    letter = {Stage.ALPHA: "a", Stage.BETA: "b", Stage.GA: "g", Stage.DEPRECATED: "d"}[state.stage]
    if state.locked:
        letter = "l"
    return letter.upper() if state.default else letter


def _versions() -> Iterator[str]:
    yield from (
        "## API versions",
        "",
        "Versions that not every release serves. Alpha and beta versions must be enabled with `--runtime-config`.",
        "",
    )
    yield from _row("kind", "version", "since", "deprecated", "removed")
    yield from _row(*("---",) * 5)
    for (group, kind), found in SERVED.items():
        for version, life in found.items():
            named = f"{kind or 'other kinds'}.{group}"
            yield from _row(named, version, life.since, life.deprecated, life.removed)
    yield ""


def _behaviours() -> Iterator[str]:
    yield "## Behaviour without a gate"
    yield ""
    yield from _row("releases", "behaviour", "source")
    yield from _row(*("---",) * 3)
    declared = [one for module in (classic, behaviours) for one in vars(module).values() if isinstance(one, Behaviour)]
    declared.sort(key=lambda one: (order(one.since or RELEASES[0]), order(one.until or "2.0")))
    for one in declared:
        yield from _row(f"{one.since or RELEASES[0]} – {one.until}".rstrip(), one.about, one.source)


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
