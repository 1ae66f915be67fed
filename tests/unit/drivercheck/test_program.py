"""The driver's process: started with what a pod finds, ended as pods are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cathedra.drivercheck.errors import DriverCheckError
from cathedra.drivercheck.program import DriverProgram


async def test_an_instance_gets_its_environment_and_its_words_are_kept(tmp_path: Path) -> None:
    script = "import os; print(os.environ['NODE_NAME'], os.environ['POD_UID'])"
    program = DriverProgram([sys.executable, "-c", script], {"NODE_NAME": "node-0"}, tmp_path / "log")
    process = await program.start(POD_UID="1")
    assert await process.wait() == 0
    assert program.said() == "node-0 1"


async def test_an_instance_is_told_to_end(tmp_path: Path) -> None:
    program = DriverProgram([sys.executable, "-c", "import time; time.sleep(600)"], {}, tmp_path / "log")
    process = await program.start()
    assert await program.stop(process) == -15
    await program.kill(process)


async def test_a_command_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    program = DriverProgram([str(tmp_path / "missing")], {}, tmp_path / "log")
    with pytest.raises(DriverCheckError, match=r"cannot start .*missing: No such file or directory"):
        await program.start()
    assert program.said() == ""
