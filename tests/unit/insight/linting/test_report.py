"""Every rule finds what it is for, and leaves alone what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cathedra.insight import lint, read_dump
from cathedra.insight.linting.report import RULES, lint_text, sarif
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with
from tests.unit.insight.linting.manifests import (
    claim,
    counters,
    device_class,
    gang,
    member,
    placed,
    pod,
    selecting,
    slices,
    yaml_of,
)

ATTRIBUTES = 'device.attributes["gpu.example.com"]'
CAPACITY = 'device.capacity["gpu.example.com"]'
GUARDED = f'"model" in {ATTRIBUTES} && {ATTRIBUTES}.model == "a100"'
GOOD_CLAIM = yaml_of(device_class(), claim(selecting(f'{ATTRIBUTES}.model == "a100"')))


def asking(*expressions: str) -> str:
    """A class that makes sure of the driver, and a claim with these selectors."""
    return yaml_of(device_class(), claim(selecting(*expressions)))


def taint_rule(selector: dict[str, str]) -> dict[str, Any]:
    taint = {"key": "k", "effect": "NoExecute"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def preferring(annotation: str) -> dict[str, Any]:
    made = claim(selecting())
    notes = {"scheduling.cathedra.dev/preferred-constraints": annotation}
    return {**made, "metadata": {**made["metadata"], "annotations": notes}}


CASES: dict[str, tuple[list[str], list[str]]] = {
    "broken-yaml": (["a: [1", "kind: {{ .Values.kind }}\n", "a: 1\n\tb: 2"], [GOOD_CLAIM, "# nothing\n", "[1, 2]\n"]),
    "unknown-field": (
        [yaml_of(claim(selecting(), name="x") | {"spek": 1}), GOOD_CLAIM.replace('"cel":', '"sel":')],
        [GOOD_CLAIM],
    ),
    "wrong-type": ([yaml_of(claim(selecting(count="two")))], [yaml_of(claim(selecting(count=2)))]),
    "unknown-version": ([yaml_of(claim(selecting(), version="v1alpha1"))], [yaml_of(claim(selecting()))]),
    "invalid-object": (
        [yaml_of(claim(selecting(), selecting())), yaml_of(claim(selecting(allocationMode="Some")))],
        [yaml_of(claim(selecting(), selecting(name="other")))],
    ),
    "all-with-count": (
        [yaml_of(claim(selecting(allocationMode="All", count=2)))],
        [yaml_of(claim(selecting(allocationMode="All")))],
    ),
    "cel-error": (
        [asking("device.drver == 'x'"), asking("1 +"), asking(f'{CAPACITY}.memory >= quantity("1Gi")'), asking("")],
        [asking('device.driver == "x"')],
    ),
    "cel-cost": (
        [asking("device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, d + e != f)))")],
        [asking("device.attributes.all(d, d != 'x')")],
    ),
    "quantity-as-literal": (
        [asking(f'{CAPACITY}.memory == "40Gi"'), asking(f"{CAPACITY}.memory > 40")],
        [asking(f'{CAPACITY}.memory.compareTo(quantity("40Gi")) >= 0')],
    ),
    "attribute-as-quantity": (
        [asking(f'{ATTRIBUTES}.memory.compareTo(quantity("1Gi")) > 0'), asking(f'{ATTRIBUTES}.x >= quantity("1Gi")')],
        [asking(f'{ATTRIBUTES}.version.compareTo(semver("1.0.0")) > 0')],
    ),
    "field-of-value": (
        [asking(f'{ATTRIBUTES}.model.string == "a100"'), asking(f'{ATTRIBUTES}["model"].value == "a100"')],
        [GOOD_CLAIM, asking(f'{ATTRIBUTES}.model.startsWith("a")')],
    ),
    "failing-literal": (
        [
            asking(f'{CAPACITY}.memory.compareTo(quantity("40GB")) >= 0'),
            asking(f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("550.127.08"))'),
            asking(f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("550"))'),
            asking(f'{ATTRIBUTES}.address == ip("300.1.1.1")'),
            asking(f'{ATTRIBUTES}.address == url("no url").getHost()'),
        ],
        [
            asking(f'{CAPACITY}.memory.compareTo(quantity("40Gi")) >= 0'),
            asking(f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("550.127.8"))'),
            asking(f'isQuantity("40GB") || {ATTRIBUTES}.model == "a100"'),
        ],
    ),
    "taints-everything": (
        [yaml_of(taint_rule({})), yaml_of(taint_rule({"pool": ""}))],
        [yaml_of(taint_rule({"driver": "gpu.example.com"})), yaml_of(taint_rule({"device": "gpu-0"}))],
    ),
    "deprecated-version": (
        [yaml_of(claim({"name": "gpu", "deviceClassName": "gpu"}, version="v1beta1"))],
        [yaml_of(claim(selecting()))],
    ),
    "server-warning": (
        [yaml_of(*slices([{"name": "gpu-0"}])).replace("gpu.example.com", "GPU.example.com")],
        [yaml_of(*slices([{"name": "gpu-0"}]))],
    ),
    "dropped-field": (
        [
            yaml_of(*slices([{"name": "gpu-0"}])).replace(
                '"pool"', '"skipNodeOperations": ["NodePrepareResources"], "pool"'
            )
        ],
        [yaml_of(*slices([{"name": "gpu-0"}]))],
    ),
    "unguarded-attribute": (
        [
            yaml_of(claim(selecting(f'{ATTRIBUTES}.model == "a100"'))),
            asking('device.attributes["other.example.com"].model == "a100"'),
            asking(f'{ATTRIBUTES}.model == "a100" || device.attributes["o.example.com"].x'),
            yaml_of(claim(selecting(f'!("model" in {ATTRIBUTES}) && {ATTRIBUTES}.model == "a100"'))),
        ],
        [
            GOOD_CLAIM,
            yaml_of(claim(selecting(GUARDED))),
            yaml_of(claim(selecting(f'"model" in {ATTRIBUTES}', f'{ATTRIBUTES}.model == "a100"'))),
            yaml_of(claim(selecting(f'!("model" in {ATTRIBUTES}) || {ATTRIBUTES}.model == "a100"'))),
            yaml_of(claim(selecting(f"has({ATTRIBUTES}.model) && {ATTRIBUTES}.model == 'a100'"))),
            yaml_of(claim(selecting(f"has({ATTRIBUTES}.model) ? {ATTRIBUTES}.model == 'a100' : false"))),
            yaml_of(claim(selecting(f"{ATTRIBUTES}.?model.orValue('') == 'a100'"))),
            yaml_of(claim(selecting(f'cel.bind(a, {ATTRIBUTES}, "model" in a && a.model == "a100")'))),
            yaml_of(claim(selecting(f'{ATTRIBUTES}.model == "a100" && device.driver == "gpu.example.com"'))),
        ],
    ),
    "unqualified-name": (
        [
            asking('device.attributes["model"] == "a100"'),
            asking('"model" in device.attributes'),
            asking('device.attributes["gpu.example.com/model"] == "a100"'),
            asking(f'{ATTRIBUTES}["gpu.example.com/model"] == "a100"'),
        ],
        [GOOD_CLAIM, asking('"gpu.example.com" in device.attributes')],
    ),
    "version-as-string": (
        [asking(f'{ATTRIBUTES}.driverVersion >= "1.9.0"'), asking(f'"v1.2" < {ATTRIBUTES}.driverVersion')],
        [asking(f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("1.9.0"))'), asking(f'{ATTRIBUTES}.model >= "b"')],
    ),
    "never-true": (
        [
            asking("false"),
            asking('device.driver == "other.example.com"'),
            asking(f'{ATTRIBUTES}.model == "a" && {ATTRIBUTES}.model == "b"'),
            asking(f"{ATTRIBUTES}.numa > 3 && {ATTRIBUTES}.numa <= 3"),
            asking(f'{ATTRIBUTES}.model in ["a", "b"] && {ATTRIBUTES}.model == "c"'),
            asking(f'({ATTRIBUTES}.model == "a" || {ATTRIBUTES}.model == "b")', f'{ATTRIBUTES}.model == "c"'),
            asking(f"{ATTRIBUTES}.ecc && !{ATTRIBUTES}.ecc"),
            asking(
                f'{CAPACITY}.memory.isLessThan(quantity("10Gi")) && {CAPACITY}.memory.compareTo(quantity("1Ti")) >= 0'
            ),
            asking(
                f'{ATTRIBUTES}.v.isLessThan(semver("1.0.0")) && {ATTRIBUTES}.v.isGreaterThan(semver("1.0.0-rc.1+b"))'
                f' && {ATTRIBUTES}.v.compareTo(semver("2.0.0")) == 0'
            ),
        ],
        [
            asking('device.driver == "gpu.example.com"'),
            asking(f'{ATTRIBUTES}.model == "a" && {ATTRIBUTES}.other == "b"'),
            asking(f"{ATTRIBUTES}.numa >= 3 && {ATTRIBUTES}.numa <= 3"),
            asking(f'{ATTRIBUTES}.model in ["a", "b"] && {ATTRIBUTES}.model != "a"'),
            asking(f'{ATTRIBUTES}.model == "a" || {ATTRIBUTES}.model == "b"'),
            asking(
                f'{CAPACITY}.memory.compareTo(quantity("1Gi")) >= 0 && {CAPACITY}.memory.isLessThan(quantity("1Ti"))'
            ),
        ],
    ),
    "unused-claim": ([yaml_of(pod())], [yaml_of(pod({"name": "g"}))]),
    "unused-request": (
        [yaml_of(claim(selecting(), selecting(name="nic")), pod({"name": "g", "request": "nic"}))],
        [yaml_of(claim(selecting(), selecting(name="nic")), pod({"name": "g"}))],
    ),
    "unknown-request": (
        [yaml_of(claim(selecting()), pod({"name": "g", "request": "nic"}))],
        [
            yaml_of(claim(selecting()), pod({"name": "g", "request": "gpu"})),
            yaml_of(pod({"name": "g", "request": "x"})),
        ],
    ),
    "unusable-preference": (
        [yaml_of(preferring("{")), yaml_of(preferring('[{"requests": ["nic"], "matchAttribute": "a.example/b"}]'))],
        [yaml_of(preferring('[{"matchAttribute": "a.example/b"}]'))],
    ),
    "small-group": ([yaml_of(gang(3), member())], [yaml_of(gang(1), member())]),
    "incomplete-pool": ([yaml_of(*slices([{"name": "a"}], count=2))], [yaml_of(*slices([{"name": "a"}]))]),
    "duplicate-device": (
        [yaml_of(*slices([{"name": "a"}], [{"name": "a"}]))],
        [yaml_of(*slices([{"name": "a"}], [{"name": "b"}]))],
    ),
    "several-node-terms": ([yaml_of(placed(2))], [yaml_of(placed(1))]),
    "unused-counters": ([yaml_of(*counters(name="other"))], [yaml_of(*counters())]),
    "unknown-counters": ([yaml_of(*counters(name="other"))], [yaml_of(*counters())]),
    "exceeding-counters": ([yaml_of(*counters(consumed="3"))], [yaml_of(*counters(consumed="2"))]),
    "unknown-rule": (["# cathedra: allow never-rue\n" + GOOD_CLAIM], ["# cathedra: allow never-true\n" + GOOD_CLAIM]),
}
AGAINST: dict[str, tuple[list[str], list[str]]] = {
    "unknown-class": ([yaml_of(claim(selecting(deviceClassName="gpus")))], [yaml_of(claim(selecting()))]),
    "unknown-claim": (
        [yaml_of(pod({"name": "g"})), yaml_of(claim(selecting(), namespace="other"), pod({"name": "g"}))],
        [yaml_of(claim(selecting()), pod({"name": "g"}))],
    ),
    "unknown-group": ([yaml_of(member(group="other"))], [yaml_of(member())]),
    "unknown-attribute": (
        [
            asking(f'{ATTRIBUTES}.modell == "a100"'),
            asking(f'"memory" in {ATTRIBUTES}'),
            asking('"model" in device.attributes["gpu.example.org"]'),
            asking(f"{ATTRIBUTES}.?numa.orValue(0) == 0"),
        ],
        [asking(f'{ATTRIBUTES}.model == "a100"'), asking(f'"memory" in {CAPACITY}')],
    ),
    "wrong-attribute-type": ([asking(f"{ATTRIBUTES}.model == 100")], [asking(f'{ATTRIBUTES}.model == "a100"')]),
    "failing-selector": ([asking(f"{ATTRIBUTES}.numa == 0")], [asking(f"{ATTRIBUTES}.?numa.orValue(0) == 0")]),
    "matches-nothing": ([asking(f'{ATTRIBUTES}.model == "h100"')], [asking(f'{ATTRIBUTES}.model == "a100"')]),
}


def rules_of(text: str, **more: Any) -> set[str]:
    return {one.rule for one in lint(text, **more).findings}


def test_every_rule_has_examples() -> None:
    assert {*CASES, *AGAINST} == set(RULES)


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_what_it_is_for_and_leaves_alone_what_is_right(rule: str) -> None:
    bad, good = CASES[rule]
    # In a release that still serves v1beta1, of which some examples are.
    given = {"release": "1.37", "feature_gates": {"GenericWorkload": True}}
    assert [text for text in bad if rule not in rules_of(text, **given)] == []
    assert [text for text in good if rule in rules_of(text, **given)] == []


@pytest.mark.parametrize("rule", AGAINST)
def test_a_rule_about_devices_asks_those_of_the_cluster(rule: str) -> None:
    group = {**gang(1), "metadata": {"name": "gang", "namespace": "default"}}
    state = read_dump([*gpu_cluster(taken=1), *pod_with(1), group])
    bad, good = AGAINST[rule]
    assert [text for text in bad if rule not in rules_of(text, against=state)] == []
    assert [text for text in good if rule in rules_of(text, against=state)] == []
    assert [text for text in bad if rule in rules_of(text)] == []


def test_every_rule_has_its_section_on_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs" / "lint.md").read_text()
    assert [name for name in RULES if f"\n### {name}\n" not in page] == []
    assert [line for line in page.splitlines() if line.startswith("### ") and line[4:] not in RULES] == []


LONG = " && ".join(f'"a{n}" in device.attributes["gpu.example.com"]' for n in range(20))
REPORT = lint(yaml_of(claim(selecting(f'{LONG} && device.attributes["gpu.example.com"].modle == "a100"'))))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_caret_stands_under_the_place_and_lines_keep_to_the_width(width: int) -> None:
    lines = lint_text(REPORT, width).splitlines()
    assert max(map(len, lines)) <= width
    (caret,) = [number for number, line in enumerate(lines) if line.strip().startswith("^")]
    begin = lines[caret].index("^")
    assert lines[caret - 1][begin:].startswith("device.attributes")
    assert lines[caret - 1].strip().startswith("…")


def test_the_first_words_are_the_place_as_compilers_write_it() -> None:
    one = REPORT.findings[0]
    assert lint_text(REPORT).startswith(f"text:{one.line}:{one.column}: warning: fails on devices without")


def test_nothing_found_is_said() -> None:
    assert lint_text(lint(GOOD_CLAIM)) == "2 objects in 1 file: no findings"


def test_a_file_without_objects_is_no_success() -> None:
    assert lint_text(lint("")) == "0 objects in 1 file: nothing was checked"


def test_warnings_alone_do_not_fail_unless_they_are_to() -> None:
    warned, wrong = lint(yaml_of(pod())), lint(yaml_of(claim(selecting("1 +"))))
    assert not warned.clean
    assert [warned.fails(), warned.fails("warning"), warned.fails("never")] == [False, True, False]
    assert [wrong.fails(), wrong.fails("warning"), wrong.fails("never")] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (asking(f'{CAPACITY}.memory.compareTo(quantity("40GB")) >= 0'), 'quantity("40G")'),
        (asking(f'{CAPACITY}.memory.compareTo(quantity("40 GiB")) >= 0'), 'quantity("40Gi")'),
        (asking(f'{ATTRIBUTES}.v.isGreaterThan(semver("v550.09"))'), 'semver("550.9.0")'),
        (asking(f"{ATTRIBUTES}.model.string == 'a'"), f"{ATTRIBUTES}.model"),
        (yaml_of(claim({"name": "gpu", "deviceClassName": "gpu"})), "since v1beta2 it is below exactly"),
        (yaml_of(claim(selecting(), version="v1beta1")), "v1beta1 has the fields of exactly in the request itself"),
        (yaml_of(*slices([{"name": "a", "basic": {}}])), "without basic"),
        (GOOD_CLAIM.replace("apiVersion", "apiversion"), "apiVersion:"),
        (GOOD_CLAIM.replace('"kind"', '"Kind"'), "kind:"),
        (GOOD_CLAIM.replace('"gpus"', "y"), '"y": without quotes YAML reads a boolean'),
        (GOOD_CLAIM.replace('"gpus"', "40"), '"40": without quotes YAML reads a number'),
    ],
)
def test_a_hint_is_what_to_write_instead(text: str, hint: str) -> None:
    hints = [one.hint for one in lint(text, release="1.37").findings]
    assert any(hint in one for one in hints), hints


@pytest.mark.parametrize("name", ["dra.net", "rdma-nic", "sriovVF", "mlnx-hca"])
def test_no_container_names_a_claim_of_a_network_device(name: str) -> None:
    network = claim(selecting())
    network["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = name
    assert "unused-claim" not in rules_of(yaml_of(network, pod()))
    assert "unused-claim" in rules_of(yaml_of(claim(selecting()), pod()))


def test_colours_are_put_around_and_not_counted() -> None:
    plain = lint_text(REPORT, 80)
    coloured = lint_text(REPORT, 80, lambda text, what: f"<{text}>")
    assert coloured.replace("<", "").replace(">", "") == plain


def test_sarif_names_each_rule_and_the_place_of_each_result() -> None:
    (run,) = sarif(REPORT)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(RULES)
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "unguarded-attribute"
    region = result["locations"][0]["physicalLocation"]["region"]
    one = REPORT.findings[0]
    assert (region["startLine"], region["startColumn"]) == (one.line, one.column)
    written = r"device.attributes[\"gpu.example.com\"].modle"
    assert region["endColumn"] - region["startColumn"] == len(written)


def test_files_are_addresses_in_sarif() -> None:
    report = lint("kind: Pod\napiVersion: v2\n")
    (run,) = sarif(report)["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "text"}
