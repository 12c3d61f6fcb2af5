"""`xlvin completion SHELL`: a script that completes commands, options and names, for bash, zsh or fish."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from typing import Annotated

import tyro

from xlvin.agents.registry import AGENTS
from xlvin.cli import COMMANDS
from xlvin.commands.list import KINDS, SETTINGS
from xlvin.commands.reproduce import EXPERIMENTS
from xlvin.errors import unknown
from xlvin.executor.artefact import SHIPPED
from xlvin.mdp.families import FAMILIES

EXAMPLES = """

examples:
  xlvin completion bash > ~/.local/share/bash-completion/completions/xlvin
  xlvin completion fish > ~/.config/fish/completions/xlvin.fish
  source <(xlvin completion zsh)
"""
SHELLS = ("bash", "zsh", "fish")


def words() -> dict[str, list[str]]:
    """What may follow each command: names that it takes, then its options, as its help shows them."""
    names = {
        "train": list(SETTINGS),
        "pretrain": list(FAMILIES),
        "executor": ["evaluate", *SHIPPED],
        "reproduce": list(EXPERIMENTS),
        "list": list(KINDS),
        "completion": list(SHELLS),
    }
    return {command: [*names.get(command, []), *_options(command)] for command in COMMANDS}


def values() -> dict[str, list[str]]:
    """What may follow an option whose values have names."""
    return {
        "--agent": list(AGENTS),
        "--agents": list(AGENTS),
        "--environments": list(SETTINGS),
        "--preset": ["tuned", "paper"],
        "--network.executor": list(SHIPPED),
    }


def completion(
    shell: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="SHELL", help=f"One of: {', '.join(SHELLS)}.")
    ],
) -> None:
    """Print a completion script."""
    if shell not in SHELLS:
        raise unknown("completion for the shell", shell, SHELLS)
    print(_fish() if shell == "fish" else _bash(zsh=shell == "zsh"))


def _options(command: str) -> list[str]:
    """Help is the one thing that all commands have in common."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        importlib.import_module(f"xlvin.commands.{command}").main(["--help"])
    return sorted({"--help", *re.findall(r"(?<![\w.`-])--[a-z][a-z0-9.-]*[a-z0-9]", told.getvalue())})


def _bash(zsh: bool) -> str:
    after = "\n".join(f'    {option}) words="{" ".join(names)}" ;;' for option, names in values().items())
    of = "\n".join(f'    {command}) words="{" ".join(found)}" ;;' for command, found in words().items())
    start = (
        "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" if zsh else ""
    )
    return f"""{start}_xlvin() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  case "$before" in
{after}
    *) case "${{COMP_WORDS[1]}}" in
{of}
    esac ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{" ".join(COMMANDS)}"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _xlvin xlvin"""


def _fish() -> str:
    lines = [
        f'complete -c xlvin -f -n __fish_use_subcommand -a {name} -d "{summary}"'
        for name, summary in COMMANDS.items()
    ]
    named = values()
    for command, found in words().items():
        seen = f'-n "__fish_seen_subcommand_from {command}"'
        for word in found:
            if not word.startswith("--"):
                lines.append(f"complete -c xlvin {seen} -a {word}")
            elif word in named:
                lines.append(f'complete -c xlvin {seen} -l {word[2:]} -x -a "{" ".join(named[word])}"')
            else:
                lines.append(f"complete -c xlvin {seen} -l {word[2:]}")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Print the script."""
    tyro.cli(completion, args=argv, prog="xlvin completion", description=__doc__ + EXAMPLES)
    return 0
