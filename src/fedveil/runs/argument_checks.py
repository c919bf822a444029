"""Arguments of the wrong type are refused in one line that names them, before anything is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedveil.core.errors import ArgumentError
from fedveil.data.dataset import Dataset
from fedveil.data.known_sets import SETS


def check_arguments(
    *,
    overrides: object = None,
    dataset: object = None,
    paths: Mapping[str, object] | None = None,
    numbers: Mapping[str, object] | None = None,
    functions: Mapping[str, object] | None = None,
) -> None:
    """`paths`, `numbers`, `functions` have arguments by their names; None always means that nothing was given."""
    if overrides is not None:
        check_settings("overrides", overrides)
    if dataset is not None:
        check_dataset(dataset)
    for name, value in (paths or {}).items():
        if value is not None and not isinstance(value, str | Path):
            raise ArgumentError(name, f"must be a path, not {_shown(value)}")
    for name, value in (numbers or {}).items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ArgumentError(name, f"must be a whole number, not {_shown(value)}")
    for name, value in (functions or {}).items():
        if value is not None and not callable(value):
            raise ArgumentError(name, f"must be a function, not {_shown(value)}")


def check_settings(name: str, settings: object) -> None:
    """Dotted keys and their values."""
    wanted = "must be a table of settings, as {'stop.rounds': 5}"
    if not isinstance(settings, Mapping):
        raise ArgumentError(name, f"{wanted}, not {_shown(settings)}")
    for key in settings:
        if not isinstance(key, str):
            raise ArgumentError(name, f"{wanted}; the key {_shown(key)} is no text")


def check_dataset(dataset: object) -> None:
    """Records, not the name of some, nor the tensors alone."""
    if isinstance(dataset, Dataset):
        return
    if isinstance(dataset, str) and dataset in SETS:
        hint = f"; load({dataset!r}) gives that one, or the setting data.name = {dataset!r} asks for it"
    else:
        hint = "; from_tensors and from_sites make one of your records, load of a data set with a name"
    raise ArgumentError("dataset", f"must be a data set, not {_shown(dataset)}{hint}")


def _shown(value: object) -> str:
    """A value as a message can show it: in one line, and not too long."""
    if isinstance(value, bool | int | float | str) and len(repr(value)) <= 60:
        return repr(value)
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
