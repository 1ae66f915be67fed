"""Input of lint, positions of findings, and exceptions by comments."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.allocation.errors import InvalidInput
from cathedra.insight import lint
from cathedra.releases import UnknownGate
from tests.unit.insight.linting.manifests import claim, selecting, yaml_of

EXAMPLES = Path(__file__).parents[4] / "examples"
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpus}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        selectors:
"""
CEL = "        - cel:\n            "
INDENT = "\n               "
MODEL = 'device.attributes["d.com"].model == "é" && device.attributes["d.com"].modle == "b"'


def places(text: str, rule: str, **more: Any) -> list[str]:
    """Return the texts above the carets of a rule's findings."""
    lines = text.split("\n")
    found = [one for one in lint(text, **more).findings if one.rule == rule]
    return [lines[one.line - 1][one.column - 1 : one.column - 1 + one.length] for one in found]


@pytest.mark.parametrize(
    "written",
    [
        f"        - cel: {{expression: '{MODEL}'}}\n",
        f"{CEL}expression: '{MODEL}'\n",
        f"{CEL}expression: {MODEL}\n",
        f"{CEL}expression: |\n              {MODEL}\n",
        f"{CEL}expression: >-\n{INDENT}{MODEL.replace(' && ', INDENT + '&& ')}\n",
        CEL + 'expression: "' + MODEL.replace('"', '\\"') + '"\n',
        CEL + 'expression: "' + MODEL.replace('"', '\\"').replace(" && ", " && \\\n             ") + '"\n',
        CEL + 'expression: "' + MODEL.replace('"', '\\"').replace("é", "\\u00e9") + '"\n',
        CEL + "expression: '" + MODEL.replace('"', "''") + "'\n",
        CEL + "expression: &anchor |-\n             // comment\n             " + MODEL + "\n",
    ],
)
def test_places_inside_of_an_expression_are_found_in_every_style(written: str) -> None:
    found = places(CLAIM + written, "unguarded-attribute")
    plain = [one.replace("\\", "").replace("''", '"') for one in found]
    assert plain == ['device.attributes["d.com"].model', 'device.attributes["d.com"].modle']


def test_a_field_is_found_in_the_form_of_its_version() -> None:
    text = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: gpus}
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu
      allocationMode: All
      count: 3
"""
    assert places(text, "all-with-count", release="1.37") == ["3"]


def test_objects_of_lists_are_read() -> None:
    inside = CLAIM.replace("\n", "\n  ").rstrip() + " []\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n- {inside}- 3\n"
    report = lint(text.replace("name: gpus", "name: GPUS"))
    assert [(one.rule, one.line) for one in report.findings] == [("invalid-object", 6)]


def test_unknown_kinds_are_passed_over() -> None:
    report = lint("apiVersion: example.com/v1\nkind: Chart\nspec: {x: [1]}\n---\n\n---\nvalues: [1]\n---\n- 1\n")
    assert (report.clean, report.objects) == (True, 0)


def test_json_is_read() -> None:
    assert lint(yaml_of(claim(selecting()))).clean


def test_the_documents_before_a_broken_one_are_looked_at() -> None:
    report = lint(CLAIM.replace("gpus", "GPUS") + "        - {}\n---\na: [\n")
    assert [one.rule for one in report.findings] == ["invalid-object", "invalid-object", "broken-yaml"]


@pytest.mark.parametrize(
    "allowed",
    [
        CEL + "expression: false # cathedra: allow never-true, cel-error, wrong-type\n",
        CEL + "# because. cathedra: allow never-true,wrong-type\n            expression: 'false'\n",
        CEL + "# cathedra: allow never-true\n            # or not\n            expression: |\n             false\n",
        CEL + "expression: | # cathedra: allow never-true\n             true &&\n             false\n",
        CEL + "expression: |\n             // cathedra: allow never-true\n             false\n",
    ],
)
def test_a_comment_allows_what_a_rule_finds(allowed: str) -> None:
    report = lint(CLAIM + allowed)
    assert (report.findings, report.allowed) == ((), 1)


def test_a_comment_allows_its_own_rule_and_place_only() -> None:
    text = CEL + "# cathedra: allow cel-cost\n            expression: 'false'\n"
    assert [one.rule for one in lint(CLAIM + text).findings] == ["never-true"]
    assert [one.rule for one in lint("# cathedra: allow never-true\n" + CLAIM + text).findings] == ["never-true"]


def test_directories_are_read_at_any_depth_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("a/b/one.yaml", "two.yml", ".git/three.yaml", "readme.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml_of(claim(selecting())))
    assert (lint(tmp_path).files, lint([tmp_path, tmp_path / "two.yml"]).files) == (2, 3)


def test_what_cannot_be_read_is_an_error_of_input(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").mkdir()
    for path, said in (
        (tmp_path / "x.yaml", "UTF-8"),
        (tmp_path / "empty", "no manifests"),
        (tmp_path / "no", "no such"),
    ):
        with pytest.raises(InvalidInput, match=said):
            lint(path)
    with pytest.raises(UnknownGate):
        lint("", release="9.9")


def test_gates_that_are_open_serve_their_kinds_and_keep_their_fields() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: a}\nspec:\n  skipNodeOperations: [x]\n"
    )
    assert "dropped-field" in {one.rule for one in lint(text).findings}
    kept = lint(text, feature_gates={"DRAOptionalNodeOperations": True})
    assert "dropped-field" not in {one.rule for one in kept.findings}


def test_a_byte_order_mark_and_windows_line_ends_move_nothing() -> None:
    text = CLAIM.replace("name: gpus", "name: GPUS") + "        - cel: {expression: 'false'}\n"
    plain = [(one.rule, one.line, one.column) for one in lint(text).findings]
    marked = lint("\ufeff" + text.replace("\n", "\r\n"))
    assert [(one.rule, one.line, one.column) for one in marked.findings] == plain
    assert all("\r" not in one.source for one in marked.findings)


@pytest.mark.parametrize(
    ("folder", "release"),
    [
        *(
            (path.name, "")
            for path in sorted(EXAMPLES.iterdir())
            if path.name in ("tutorial", "partitions", "shared-claim")
        )
    ],
)
def test_the_examples_are_clean(folder: str, release: str) -> None:
    assert lint(EXAMPLES / folder, release=release).findings == ()


def test_the_examples_of_older_releases_are_clean_with_those() -> None:
    first = [path for path in (EXAMPLES / "classic").glob("*.yaml") if "resource.k8s.io/v1alpha1" in path.read_text()]
    assert len(first) > 3
    assert lint(first, release="1.26").clean
    assert lint(EXAMPLES / "structured-1.32" / "cats.yaml", release="1.32").clean


TEXTS = [path.read_text() for path in sorted(EXAMPLES.glob("*/*.yaml")) if path.stat().st_size < 5000]
PIECES = [
    "\n",
    ":",
    " ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    "&a ",
    "*a",
    "|",
    ">",
    "#",
    "\t",
    "\0",
    "é",
    "!!int ",
    "<<: *a",
    "---\n",
    "?",
    "%",
    "~",
    "\ud800",
]


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 6))
def test_lint_never_crashes_on_mutated_yaml(seed: int, changes: int) -> None:
    rng = random.Random(seed)
    text = rng.choice(TEXTS)
    for _ in range(changes):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randrange(1, 30) :]
        elif kind == 2:
            other = rng.choice(TEXTS)
            text = text[:at] + other[rng.randrange(len(other)) :][: rng.randrange(60)] + text[at:]
        else:
            lines = text.split("\n")
            rng.shuffle(lines)
            text = "\n".join(lines)
    for one in lint(text).findings:
        assert one.line >= 1
        assert one.column >= 1
