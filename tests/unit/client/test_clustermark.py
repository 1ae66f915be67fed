"""The extension of a cluster in a kubeconfig."""

from __future__ import annotations

import pytest

from cathedra.client.clustermark import data_dir_of, former_context_of, further_servers_of, is_marked, mark


def test_what_is_marked_is_read_back() -> None:
    cluster = {"extensions": [mark(data_dir="/d", former_context="other", servers=("https://b/", "https://c"))]}
    assert is_marked(cluster)
    assert (data_dir_of(cluster), former_context_of(cluster)) == ("/d", "other")
    assert further_servers_of(cluster) == ("https://b", "https://c")


def test_another_programs_extension_is_no_mark() -> None:
    cluster = {"extensions": [{"name": "minikube", "extension": {"servers": 1}}]}
    assert not is_marked(cluster)
    assert (data_dir_of(cluster), former_context_of(cluster), further_servers_of(cluster)) == ("", "", ())


@pytest.mark.parametrize("servers", ["https://b", [7], ["b:6443"]])
def test_servers_that_are_no_urls_are_refused(servers: object) -> None:
    extension = {"name": mark(data_dir="", former_context="", servers=())["name"], "extension": {"servers": servers}}
    with pytest.raises(ValueError, match="servers must be a list of URLs"):
        further_servers_of({"extensions": [extension]})
