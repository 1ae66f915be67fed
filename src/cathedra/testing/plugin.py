"""The pytest plugin: a cluster as a fixture, and the reasons why pods wait in the report of a failing test.

pytest loads this module in every run, so it imports nothing else of this program until the first fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cathedra.testing.cluster import DRACluster


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "dra_cluster(nodes=1, profile='', gpus=8, kubernetes_version=<the newest>, feature_gates={}): "
        "what the test's cluster is like",
    )


@pytest.fixture
def dra_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DRACluster]:
    """A running cluster of the test's own, without root and containers.

    Its options are the arguments of ``@pytest.mark.dra_cluster(...)``, or a dict that parametrizes this fixture
    (``indirect=True``).
    """
    # start-up time: pytest loads this module in every project where it is installed
    from cathedra.cluster.config import InvalidOption
    from cathedra.profiles import ProfileError
    from cathedra.testing.cluster import DRACluster
    from cathedra.testing.options import ClusterOptions

    given: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("dra_cluster"))):
        given |= marker.kwargs
    given |= getattr(request, "param", None) or {}
    try:
        started = DRACluster(ClusterOptions.of(given), tmp_path_factory.mktemp("dra-cluster")).start()
    except (InvalidOption, ProfileError) as error:
        pytest.fail(f"dra_cluster: {error}", pytrace=False)
    with closing(started) as cluster:
        yield cluster


@pytest.fixture
def kubeconfig(dra_cluster: DRACluster) -> Path:
    """The administrator's kubeconfig of the test's cluster."""
    return dra_cluster.kubeconfig


@pytest.fixture
def apply(dra_cluster: DRACluster) -> Callable[..., list[Any]]:
    """Creates or changes objects: `cathedra.testing.DRACluster.apply`."""
    return dra_cluster.apply


@pytest.fixture
def wait_for(dra_cluster: DRACluster) -> Callable[..., Any]:
    """Waits for an object: `cathedra.testing.DRACluster.wait_for`."""
    return dra_cluster.wait_for


@pytest.fixture
def advance(dra_cluster: DRACluster) -> Callable[[float], None]:
    """Lets time pass for the cluster: `cathedra.testing.DRACluster.advance`."""
    return dra_cluster.advance


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add to the report of a test that failed why pods of its cluster wait."""
    outcome = yield
    report = outcome.get_result()
    cluster: DRACluster | None = getattr(item, "funcargs", {}).get("dra_cluster")
    if report.when == "call" and report.failed and cluster is not None:
        told = cluster.waiting()
        if told:
            report.sections.append(("pods that wait in dra_cluster", told))
