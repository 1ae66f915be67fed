"""Commands that cannot be executed: why, and the exit code of a shell."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from cathedra.node.runtime.command import Command
from cathedra.node.runtime.notstarted import LoggedCommand, UnstartedCommand, exit_code_of
from cathedra.node.runtime.runtime import STDERR


@pytest.mark.parametrize(
    ("number", "name", "code", "text"),
    [
        (errno.ENOENT, "nope", 127, 'exec: "nope": executable file not found in $PATH\n'),
        (errno.ENOENT, "/nope", 127, 'exec: "/nope": no such file or directory\n'),
        (errno.EACCES, "/etc/passwd", 126, 'exec: "/etc/passwd": permission denied\n'),
    ],
)
async def test_a_command_that_the_kernel_refuses_says_why_and_has_a_shells_code(
    number: int, name: str, code: int, text: str
) -> None:
    error = OSError(number, os.strerror(number))
    assert exit_code_of(error) == code
    command = UnstartedCommand(name, error, code)
    assert [piece async for piece in command.output()] == [(STDERR, text.encode())]
    assert await command.wait() == code


def test_what_is_no_matter_of_the_command_has_no_code() -> None:
    assert exit_code_of(OSError(errno.EMFILE, "Too many open files")) is None


@pytest.mark.parametrize(
    ("logged", "code"),
    [
        ({"level": "error", "msg": "executable file `nope` not found in $PATH: No such file or directory"}, 127),
        ({"level": "error", "msg": 'exec failed: unable to start: exec: "x": executable file not found in $PATH'}, 127),
        ({"level": "error", "msg": "open executable: Permission denied"}, 126),
        ({"level": "error", "msg": "container does not exist"}, 255),
        ({"level": "warning", "msg": "permission denied"}, 255),
        (["no object"], 255),
        (None, 255),
    ],
)
async def test_an_oci_runtimes_log_tells_what_its_exit_code_does_not(tmp_path: Path, logged: object, code: int) -> None:
    log = tmp_path / "exec.log"
    if logged is not None:
        log.write_text(json.dumps(logged) + "\nnot json\n")
    command = LoggedCommand(await Command.start(["sh", "-c", "exit 255"], None, "/", tty=False, stdin=False), log)
    assert await command.wait() == code
    await command.close()
    assert not log.exists()
