"""The reference of the command line, read from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import Any

from app.cli import COMMANDS, command_of


def command_line() -> str:
    """The page: a part for each command."""
    parts = [
        "# The command line",
        "Made from the commands' own help. Exit codes, keys and `--json`: "
        "[Operating](../operating.md#the-command-line).",
    ]
    for name in COMMANDS:
        parts += _command(f"signoff {name}", command_of(name), level=2)
    return "\n\n".join(parts)


def _command(name: str, command: Any, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "")
    if inner := getattr(command, "commands", None):
        for each, one in inner.items():
            yield from _command(f"{name} {each}", one, level=level + 1)
        return
    rows = [_row(each) for each in command.params if not getattr(each, "hidden", False)]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows])


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [str(parameter.metavar or parameter.name).upper()] if is_argument else [*parameter.opts]
    taken = "" if is_argument or parameter.is_flag else f" {str(parameter.name).upper()}"
    off = f", `{parameter.secondary_opts[0]}`" if parameter.secondary_opts else ""
    said = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", r"\|")
    return f"| `{', '.join(names)}{taken}`{off} | {f'{said}{_default(parameter)}'.strip()} |"


def _default(parameter: Any) -> str:
    set_by = f" Else `{parameter.envvar}`." if isinstance(parameter.envvar, str) else ""
    has_one = isinstance(parameter.default, (str, int, float)) and parameter.default not in (
        "",
        False,
        True,
    )
    return set_by + (f" Default: `{parameter.default}`." if has_one else "")
