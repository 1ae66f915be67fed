"""Pages of reports have the content of the command, run no script, and load nothing."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from cathedra.insight import PlannedChanges, devices, explain, explain_all, read_dump, simulate
from cathedra.insight.drawing.pages import explanation_html, page, simulation_html
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with, write_dump

STATE = read_dump([*gpu_cluster(taken=2), *pod_with(4)])


class Parts(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_explanation_has_its_funnel_its_remedies_and_the_devices() -> None:
    found = explain(STATE, "pod/train")
    parts = Parts(page("t", explanation_html(found.to_dict(), devices(STATE).to_dict())))
    assert found.summary in parts.text
    for change in found.changes:
        assert change.text in parts.text
    assert "svg" in parts.tags
    assert "ol" in parts.tags
    assert "script" not in parts.tags


def test_an_overview_names_what_waits() -> None:
    parts = Parts(explain_all(STATE)._repr_html_())
    assert "pod default/train" in parts.text
    assert "Nothing waits." in Parts(explain_all(read_dump(gpu_cluster()))._repr_html_()).text


def test_a_simulation_frames_the_devices_that_would_be_taken() -> None:
    state = read_dump(gpu_cluster())
    found = simulate(state, PlannedChanges(apply=pod_with(1)), copies=2)
    text = simulation_html(found.to_dict(), devices(state).to_dict())
    assert text.count('class="mark"') == 1
    parts = Parts(text)
    assert "1 placed, 0 gone, 0 without a node" in parts.text
    assert "more of pod default/train fit" in parts.text
    assert found._repr_html_().startswith("<div")


def test_texts_with_markup_stay_texts() -> None:
    name = "<script>x</script>"
    answer = explain(STATE, "pod/train").to_dict()
    text = page(name, explanation_html({**answer, "subject": name, "summary": f'"{name}&'}))
    assert "<script" not in text


@pytest.mark.parametrize("words", [("explain", "pod/train"), ("explain",), ("simulate",)])
def test_the_commands_write_the_page(words: tuple[str, ...], tmp_path: Path) -> None:
    dump, file = write_dump(tmp_path / "dump.json", [*gpu_cluster(taken=2), *pod_with(4)]), tmp_path / "report.html"
    assert main([*words, "--dump", str(dump), "--html", str(file)]) == 1
    parts = Parts(file.read_text())
    assert "train" in parts.text
    assert "svg" in parts.tags


def test_a_page_that_cannot_be_written_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = write_dump(tmp_path / "dump.json", [*gpu_cluster(), *pod_with(1)])
    assert main(["explain", "pod/train", "--dump", str(dump), "--html", str(tmp_path / "no" / "file.html")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_devices_are_drawn_instead_of_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "dump.json", gpu_cluster())
    assert main(["devices", "--dump", str(dump), "--svg", "400"]) == 0
    assert 'width="400"' in capsys.readouterr().out
    assert main(["devices", "--dump", str(dump), "--svg", "--node", "node-0"]) == 0
    assert 'width="800"' in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["devices", "--dump", str(dump), "--svg", "10"])
    assert ended.value.code == 2
