"""Shell completion: scripts for bash, zsh and fish, and the candidates that they and kubectl request.

The scripts hold no names of commands. They call ``cathedra __complete WORD…`` with the words up to the cursor, and
kubectl calls ``kubectl_complete-dra WORD…`` in the same way. So candidates always come from the parsers of the
installed version, and names of pods, claims, nodes and clusters from the cluster itself. Neither argcomplete nor shtab
has this protocol, which kubectl prescribes, for all four.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["SHELLS", "ShellCompletion", "complete", "print_candidates", "run"]

NO_FILES: Final = 4
"""Cobra's ShellCompDirectiveNoFileComp, which kubectl reads in the last line."""
FILES: Final = 0
SECONDS: Final = 2.0
"""Time limit of a request for names: an unreachable cluster must not block the shell."""
_FILE_METAVARS: Final = frozenset(("FILE", "DIR", "PATH", "NAME|FILE"))

_BASH: Final = r"""_cathedra() {
    local line=${COMP_LINE:0:COMP_POINT} out current prefix= one
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    out=$("${words[0]}" __complete "${words[@]:1}" 2>/dev/null) || return
    current=${words[${#words[@]}-1]}
    # bash completes only what follows the equals sign.
    [[ $current == *=* ]] && prefix=${current%%=*}=
    COMPREPLY=()
    while IFS= read -r one; do
        [[ -n $one && $one != :* ]] && COMPREPLY+=("${one#"$prefix"}")
    done <<<"$out"
    [[ $out == *:0 ]] && compopt -o default
    return 0
}
complete -F _cathedra cathedra
"""
_ZSH: Final = r"""#compdef cathedra
_cathedra() {
    local -a lines
    lines=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${lines[-1]} == :0 ]]; then
        [[ $PREFIX == *=* ]] && compset -P '*='
        _files
    elif (( ${#lines} > 1 )); then
        compadd -- "${(@)lines[1,-2]}"
    fi
}
compdef _cathedra cathedra
"""
_FISH: Final = r"""function __cathedra_complete
    set -l tokens (commandline -opc) (commandline -ct)
    set -l lines ($tokens[1] __complete $tokens[2..-1] 2>/dev/null)
    if test "$lines[-1]" = ":0"
        __fish_complete_path (commandline -ct)
    else if test (count $lines) -gt 1
        printf '%s\n' $lines[1..-2]
    end
end
complete -c cathedra -f -a '(__cathedra_complete)'
"""
SHELLS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def run(arguments: argparse.Namespace) -> int:
    """Print the script of a shell."""
    print(SHELLS[arguments.shell], end="")
    return 0


class ShellCompletion:
    """Candidates for the last of some words, and whether paths of files are candidates too."""

    def __init__(self, candidates: Sequence[str] = (), *, files: bool = False) -> None:
        self.candidates = list(candidates)
        self.files = files


def print_candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Print one candidate in each line, and cobra's directive in the last one."""
    found = complete(parser, words)
    print(*found.candidates, f":{FILES if found.files else NO_FILES}", sep="\n")
    return 0


def complete(parser: argparse.ArgumentParser, words: Sequence[str]) -> ShellCompletion:
    """Return the completions of the last word, which is empty at the beginning of a word."""
    *before, current = words or ("",)
    parser, position, waiting = _walk(parser, before)
    if waiting is not None:
        return _values(waiting, current, before)
    if current.startswith("-"):
        name, equals, value = current.partition("=")
        if not equals:
            shown = (action for action in parser._actions if action.help != argparse.SUPPRESS)
            return ShellCompletion(_beginning((name for action in shown for name in action.option_strings), current))
        found = parser._option_string_actions.get(name)
        if found is None or found.nargs == 0:
            return ShellCompletion()
        values = _values(found, value, before)
        return ShellCompletion([f"{name}={one}" for one in values.candidates], files=values.files)
    positional = _positional(parser, position)
    return ShellCompletion() if positional is None else _values(positional, current, before)


def _walk(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[argparse.ArgumentParser, int, argparse.Action | None]:
    """Return the parser of the sub-command, the number of its positional words, and the option that needs a value."""
    position, waiting = 0, None
    for word in words:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and word != "-":
            action = parser._option_string_actions.get(word)
            waiting = action if action is not None and action.nargs != 0 else None
        else:
            positional = _positional(parser, position)
            position += 1
            if isinstance(positional, argparse._SubParsersAction) and word in positional.choices:
                parser, position = positional.choices[word], 0
    return parser, position, waiting


def _positional(parser: argparse.ArgumentParser, position: int) -> argparse.Action | None:
    actions = [action for action in parser._actions if not action.option_strings]
    if position < len(actions):
        return actions[position]
    return actions[-1] if actions and actions[-1].nargs in ("*", "+") else None


def _values(action: argparse.Action, current: str, words: Sequence[str]) -> ShellCompletion:
    if action.choices is not None:
        return ShellCompletion(_beginning(map(str, action.choices), current))
    if names := _NAMES.get((action.dest, action.nargs)) or _NAMES.get((action.dest, None)):
        return ShellCompletion(_beginning(names(words), current))
    return ShellCompletion(files=action.type is Path or action.metavar in _FILE_METAVARS)


def _beginning(names: Any, current: str) -> list[str]:
    return [name for name in names if name.startswith(current)]


def _clusters(_: Sequence[str]) -> list[str]:
    # Start-up time: as the client below, with names alone.
    from cathedra.cluster.data.directories import kept_description, known_directories

    return sorted(filter(None, (kept_description(data).name for data in known_directories())))


def _nodes(words: Sequence[str]) -> list[str]:
    return _listed(words, "NODES")


def _namespaces(words: Sequence[str]) -> list[str]:
    return _listed(words, "NAMESPACES")


def _subjects(words: Sequence[str]) -> list[str]:
    if words[-1] in ("pod", "pods"):
        return _listed(words, "PODS")
    if words[-1] in ("claim", "claims", "resourceclaim", "resourceclaims"):
        return _listed(words, "RESOURCECLAIMS")
    kinds = (("pod", "PODS"), ("claim", "RESOURCECLAIMS"))
    return [f"{kind}/{name}" for kind, ref in kinds for name in _listed(words, ref)]


_NAMES: Final[dict[tuple[str, Any], Callable[[Sequence[str]], list[str]]]] = {
    ("cluster", None): _clusters,
    # Only this one names a cluster that exists: driver-new has a required NAME.
    ("name", "?"): _clusters,
    ("node", None): _nodes,
    ("node_name", None): _nodes,
    ("drain", None): _nodes,
    ("namespace", None): _namespaces,
    ("subject", None): _subjects,
}
"""By name and number of an argument: its candidates, for the words before it."""


def _listed(words: Sequence[str], ref: str) -> list[str]:
    """Return the names of objects in the cluster that the words select; none if it does not answer in time."""
    # Start-up time: commands and options need no client.
    from cathedra.api.status import StatusError
    from cathedra.client import kubeconfig, resources
    from cathedra.client.client import Client
    from cathedra.client.http import HTTPTransport
    from cathedra.clock import SystemClock

    async def listed() -> list[str]:
        target = kubeconfig.load(_option(words, "--kubeconfig") or None, context=_option(words, "--context"))
        kind = getattr(resources, ref)
        namespace = (_option(words, "-n") or _option(words, "--namespace") or target.namespace) * kind.namespaced
        async with asyncio.timeout(SECONDS), await HTTPTransport.open(target) as transport:
            page = await Client(transport, clock=SystemClock()).resource(kind, namespace).list()
            return [item.metadata.name for item in page.items]

    try:
        return asyncio.run(listed())
    except (StatusError, OSError, kubeconfig.KubeconfigError):
        return []


def _option(words: Sequence[str], name: str) -> str:
    """Return the value of an option among the words; empty if it is not there."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return ""
