"""Options in groups: a command takes a dataclass of options, not a dozen parameters more.

`expand` turns each such parameter into one option per field, and gathers the values again.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def expand(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` with every dataclass parameter replaced by its fields, as typer reads them. Its
    `__groups__` are the docstrings and field names of those."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        n: hint for n, hint in hints.items() if dataclasses.is_dataclass(hint)
    }
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        for made in _fields(groups[name]) if name in groups else [parameter]:
            if made.name in parameters:
                raise TypeError(f"two options named '{made.name}' in {command.__module__}")
            hint = hints.get(made.name, made.annotation) if name not in groups else made.annotation
            parameters[made.name] = made.replace(
                annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY
            )

    def call(**values: Any) -> Any:
        gathered = {
            name: group(**{f.name: values.pop(f.name) for f in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        return command(**gathered, **values)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__annotations__ = {p.name: p.annotation for p in parameters.values()}
    call.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    call.__groups__ = [  # type: ignore[attr-defined]
        (group.__doc__ or "", [f.name for f in dataclasses.fields(group)])
        for group in groups.values()
    ]
    return call


def _fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name]
        )
        for f in dataclasses.fields(group)
    ]
