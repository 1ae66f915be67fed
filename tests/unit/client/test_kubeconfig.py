"""kubeconfig files: found as kubectl finds them, written without losing anything."""

from __future__ import annotations

import base64
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cathedra.client.kubeconfig import (
    ContextTaken,
    KubeconfigError,
    KubeconfigLocked,
    Target,
    current_context,
    load,
    merge,
    remove,
    taken_by,
    write,
)

TARGET = Target(
    server="https://127.0.0.1:6443",
    certificate_authority=b"CA",
    client_certificate=b"CERT",
    client_key=b"KEY",
)


def config(name: str, server: str, **user: str) -> str:
    return yaml.safe_dump(
        {
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": server}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "team"}}],
        }
    )


def test_what_was_written_is_read_back_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    write(path, TARGET)
    assert load(path) == TARGET
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_further_servers_are_read_back_and_kubectl_sees_the_first(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write(path, replace(TARGET, further=("https://10.0.0.2:6443", "https://10.0.0.3:6443")))
    assert load(path).servers == (TARGET.server, "https://10.0.0.2:6443", "https://10.0.0.3:6443")
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == TARGET.server
    merge(load(path), path=tmp_path / "config")
    assert load(tmp_path / "config").servers == load(path).servers


def test_further_servers_that_are_none_are_named(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write(path, replace(TARGET, further=("10.0.0.2",)))
    with pytest.raises(KubeconfigError, match=r"cluster 'cathedra': extension 'cathedra.dev/cluster': servers must be"):
        load(path)


def test_an_explicit_file_wins_over_the_environment_and_that_over_home(tmp_path: Path) -> None:
    home = tmp_path / ".kube" / "config"
    home.parent.mkdir()
    home.write_text(config("home", "https://home"))
    other, explicit = tmp_path / "other", tmp_path / "explicit"
    other.write_text(config("other", "https://other"))
    explicit.write_text(config("explicit", "https://explicit"))
    environment = {"HOME": str(tmp_path)}
    assert load(environment=environment).server == "https://home"
    environment["KUBECONFIG"] = str(other)
    assert load(environment=environment).server == "https://other"
    assert load(explicit, environment=environment).server == "https://explicit"


def test_files_of_the_environment_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text(config("x", "https://first", token="t1"))
    second.write_text(config("z", "https://third", token="t3"))
    environment = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    assert (load(environment=environment).server, load(environment=environment).token) == ("https://first", "t1")
    chosen = load(context="z", environment=environment)
    assert (chosen.server, chosen.token, chosen.namespace) == ("https://third", "t3", "team")


def test_paths_inside_a_file_are_relative_to_it_and_data_wins_over_files(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"from file")
    (tmp_path / "token").write_text("secret\n")
    document = yaml.safe_load(config("x", "https://x", tokenFile="token"))
    document["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    assert (load(path).certificate_authority, load(path).token) == (b"from file", "secret")
    assert load(path).token_file == tmp_path / "token"
    document["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(b"inline").decode()
    path.write_text(yaml.safe_dump(document))
    assert load(path).certificate_authority == b"inline"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{}", "current-context is not set"),
        ("current-context: gone", "context 'gone' does not exist"),
        ("- not\n- a map", "no kubeconfig"),
        (": : :", "error loading config file"),
        (config("x", ""), "server is not set"),
        (config("x", "https://x", exec="{}"), "credential plugins"),
        ("users: [true]", "Expected `object`, got `bool` - at `\\$.users"),
        ("current-context: [a]", "Expected `str`, got `array` - at `\\$.current-context`"),
        ("clusters: {a: b}", "Expected `array`, got `object` - at `\\$.clusters`"),
        ("clusters: [{name: 1}]", "Expected `str`, got `int` - at `\\$.clusters"),
        (config("x", "https://x", tokenFile="a\0b"), "unable to read"),
        (config("x", "https://x", **{"client-key-data": "é"}), "client-key-data is not base64"),
    ],
)
def test_what_cannot_be_used_is_said_clearly(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(KubeconfigError, match=problem):
        load(path)


def test_no_configuration_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="no configuration has been provided"):
        load(environment={"HOME": str(tmp_path)})
    with pytest.raises(KubeconfigError, match="no such file"):
        load(tmp_path / "missing")


def test_merging_keeps_everything_else_and_a_backup(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    environment = {"HOME": str(tmp_path)}
    assert merge(TARGET, environment=environment) is None
    assert load(environment=environment) == TARGET
    document = yaml.safe_load(path.read_text()) | {"preferences": {"colors": True}}
    document["contexts"].append({"name": "work", "context": {"cluster": "work", "user": "work"}})
    path.write_text(yaml.safe_dump(document))
    before = path.read_text()
    moved = Target(server="https://127.0.0.1:7000")
    backup = merge(moved, environment=environment)
    assert backup is not None
    assert backup.read_text() == before
    after = yaml.safe_load(path.read_text())
    assert [context["name"] for context in after["contexts"]] == ["work", "cathedra"]
    assert after["preferences"] == {"colors": True}
    assert load(environment=environment).server == "https://127.0.0.1:7000"
    assert not path.with_name("config.lock").exists()


def test_a_foreign_context_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(config("cathedra", "https://theirs"))
    before = path.read_text()
    with pytest.raises(ContextTaken, match="was not made by cathedra"):
        merge(TARGET, path=path)
    assert path.read_text() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config"]


def test_a_locked_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.lock").touch()
    with pytest.raises(KubeconfigLocked, match="another process is writing"):
        merge(TARGET, path=tmp_path / "config")
    assert not (tmp_path / "config").exists()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text(config("work", "https://work"))
    link = tmp_path / "config"
    link.symlink_to(real)
    merge(TARGET, path=link)
    assert link.is_symlink()
    assert load(real, context="work").server == "https://work"


def test_what_is_null_is_absent(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(config("x", "https://x") + "extensions: null\n")
    document = yaml.safe_load(path.read_text())
    document["users"].append(None)
    document["clusters"][0]["cluster"]["tls-server-name"] = None
    path.write_text(yaml.safe_dump(document))
    assert load(path).tls_server_name == ""
    empty = tmp_path / "empty"
    empty.write_text("{clusters: null, users: null, contexts: null, preferences: null}")
    assert load(environment={"KUBECONFIG": f"{empty}:{path}"}).server == "https://x"


def test_a_file_that_is_no_token_is_said_clearly(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    path = tmp_path / "config"
    path.write_text(config("x", "https://x", tokenFile="token"))
    with pytest.raises(KubeconfigError, match="is no token"):
        load(path)


def test_the_first_backup_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(config("work", "https://work"))
    before = path.read_text()
    first = merge(TARGET, path=path)
    entered = path.read_text()
    second = merge(Target(server="https://127.0.0.1:7000"), path=path)
    third = merge(TARGET, path=path)
    assert first is not None
    assert second is not None
    assert (first.read_text(), second == third, first != second) == (before, True, True)
    assert path.read_text() == entered


def test_removing_a_context_makes_the_former_one_current_again(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(config("work", "https://work"))
    merge(TARGET, path=path)
    merge(TARGET, path=path)
    assert load(path).server == TARGET.server
    assert remove(TARGET, path=path) == "work"
    assert load(path).server == "https://work"
    assert "cathedra" not in path.read_text()
    assert remove(TARGET, path=path) is None


def test_removing_leaves_the_choice_of_another_context_and_what_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(config("work", "https://work"))
    merge(TARGET, path=path)
    assert remove(replace(TARGET, server="https://elsewhere"), path=path) is None
    assert remove(replace(TARGET, name="work", server="https://work"), path=path) is None
    path.write_text(path.read_text().replace("current-context: cathedra", "current-context: work"))
    assert remove(TARGET, path=path) == "work"
    assert load(path).server == "https://work"


def test_a_cluster_that_was_renamed_has_one_context_and_another_directory_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(config("work", "https://work"))
    merge(replace(TARGET, data_dir="/a"), path=path)
    merge(replace(TARGET, name="other", data_dir="/b"), path=path)
    merge(replace(TARGET, name="renamed", data_dir="/a"), path=path)
    names = [entry["name"] for entry in yaml.safe_load(path.read_text())["contexts"]]
    assert names == ["work", "other", "renamed"]
    assert taken_by("other", path=path) == "/b"
    assert remove(replace(TARGET, name="other", data_dir="/a"), path=path) == "other"
    assert taken_by("other", path=path) == "/b"


def test_the_current_context_is_read_without_credentials(tmp_path: Path) -> None:
    path = tmp_path / "config"
    write(path, replace(TARGET, data_dir="/a"))
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] = {"exec": {"command": "aws"}}
    path.write_text(yaml.safe_dump(document))
    found = current_context(path)
    assert found is not None
    assert (found.server, found.certificate_authority, found.data_dir) == (TARGET.server, b"CA", "/a")
    path.write_text("{}")
    assert current_context(path) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: Config\ncontexts: none\n", "(line 2)"),
        ("kind: Config\nusers:\n- name: a\n  user:\n    token: [1]\n", "(line 5)"),
        ("kind: Config\nusers:\n- name: [a\n", "line 3"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError) as raised:
        load(path)
    assert str(path) in str(raised.value)
    assert line in str(raised.value)
