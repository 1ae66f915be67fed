"""Options of parts that run alone."""

from __future__ import annotations

import argparse

from cathedra.cli.options import add_all
from cathedra.cli.partoptions import DRIVER_CONTROL, DRIVER_PROCESS, ENROLMENT


def test_everything_that_addresses_a_node_of_a_cluster_selects_it_alike() -> None:
    for options in (DRIVER_CONTROL, DRIVER_PROCESS, ENROLMENT):
        parser = argparse.ArgumentParser()
        add_all(parser, options)
        node = () if options is DRIVER_PROCESS else ("--node-name", "n")
        found = parser.parse_args(["-c", "dev", "--data-dir", "/lab", *node])
        assert (found.cluster, str(found.data_dir)) == ("dev", "/lab")
