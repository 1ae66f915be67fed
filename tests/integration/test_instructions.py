"""The count of instructions, made with the real Valgrind."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.requirements import program


def test_the_instructions_of_a_pod_are_counted() -> None:
    program("valgrind")
    command = [sys.executable, "-m", "benchmarks.instructions", "SchedulingBasic/500Nodes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.match(r"SchedulingBasic/500Nodes +([\d,]+) thousand instructions per pod\n$", done.stdout)
    assert found is not None, done.stdout
    # Less than the interpreter needs for one request would mean that the pods were not counted.
    assert int(found[1].replace(",", "")) > 100


def test_the_instructions_of_a_request_are_counted() -> None:
    program("valgrind")
    command = [sys.executable, "-m", "benchmarks.requestcosts", "DELETE"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.match(r"DELETE +([\d,]+) thousand instructions per request\n$", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1].replace(",", "")) > 50


def test_an_unknown_workload_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.instructions", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("error: argument NAME: no workload has nothing in its name\n")


def test_an_unknown_kind_of_request_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.requestcosts", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("error: no such kind: HEAD; there are GET, LIST, POST, PATCH, DELETE\n")
