"""Checking and reading settings: typed dataclass fields, files, `field=value` strings."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sql_env.core.errors import UserError
from sql_env.core.suggestions import did_you_mean


class ConfigError(UserError, ValueError):
    """A setting that cannot be used; the message names the field, the value and what is allowed."""


def check_fields(instance: Any) -> None:
    """Check every field of a dataclass instance against its type and its bounds.

    Text from a command line or a file ("1e-5") becomes the field's type. Bounds stand in the
    field's metadata: `min` includes its value, `above` does not.
    """
    hints = get_type_hints(type(instance))
    for item in dataclasses.fields(instance):
        value = _convert(item.name, getattr(instance, item.name), hints[item.name])
        _check_bounds(item, value)
        object.__setattr__(instance, item.name, value)  # the dataclasses are frozen


def from_mapping(cls: type, values: Mapping[str, Any], source: str) -> Any:
    """Build a settings dataclass; an unknown key names the nearest field there is.

    Args:
        source: where the values come from, for the error message.
    """
    known = {item.name for item in dataclasses.fields(cls)}
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are {', '.join(sorted(known))}"
            raise ConfigError(f"{source}: there is no setting {name!r}.{hint}")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def read_file(path: Path | str) -> dict[str, Any]:
    """The settings in a TOML, YAML or JSON file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    values: Any
    try:
        match path.suffix.lower():
            case ".toml":
                values = tomllib.loads(text)
            case ".json":
                values = json.loads(text)
            case ".yaml" | ".yml":
                values = _read_yaml(path, text)
            case suffix:
                raise ConfigError(f"{path}: {suffix!r} is no known kind: use .toml, .yaml or .json")
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected `field: value` pairs, found {type(values).__name__}")
    return values


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """`["a=1", "sft.max_steps=5"]` as `{"a": 1, "sft": {"max_steps": 5}}`."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"{assignment!r} is no setting: write field=value")
        *parents, leaf = name.strip().split(".")
        target = values
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = _parse_value(text.strip())
    return values


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` wins; nested mappings are merged, not replaced."""
    merged = dict(base)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = merge(below, value)
        else:
            merged[name] = value
    return merged


def _parse_value(text: str) -> Any:
    if text.lower() in ("none", "null", ""):
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"True": True, "False": False}.get(text, text)


def _read_yaml(path: Path, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {error}") from error


def _convert(name: str, value: Any, hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _convert(name, value, next(item for item in arguments if item is not type(None)))
    if origin is Literal:
        if value not in arguments:
            raise _refusal(name, value, "one of " + ", ".join(map(str, arguments)))
        return value
    if origin is list:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise _refusal(name, value, "a list")
        return [
            _convert(name, item.strip() if isinstance(item, str) else item, arguments[0])
            for item in items
        ]
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _refusal(name, value, f"fields such as {name}.field=value")
        return dict(value)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return from_mapping(hint, value, name)  # type: ignore[arg-type]
        return _require(name, value, hint, f"settings such as {name}.field=value")
    if hint is bool:
        return _require(name, value, bool, "true or false")
    if hint in (int, float):
        return number(name, value, hint)
    return _require(name, value, hint, "text")


def number(name: str, value: Any, kind: type[int] | type[float]) -> int | float:
    """`value` as a number of that kind, or a refusal that names the setting."""
    allowed = "a whole number" if kind is int else "a number"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _refusal(name, value, allowed)
    try:
        number = float(value)  # YAML reads 1e-5 as text
    except ValueError:
        raise _refusal(name, value, allowed) from None
    if number != number or number in (float("inf"), float("-inf")):
        raise _refusal(name, value, allowed)
    if kind is float:
        return number
    if not number.is_integer():
        raise _refusal(name, value, allowed)
    return int(number)


def _require(name: str, value: Any, kind: Any, allowed: str) -> Any:
    if not isinstance(value, kind):
        raise _refusal(name, value, allowed)
    return value


def _check_bounds(item: dataclasses.Field[Any], value: Any) -> None:
    if value is None:
        return
    bounds = item.metadata
    if "min" in bounds and value < bounds["min"]:
        raise _refusal(item.name, value, f"{bounds['min']} or more")
    if "above" in bounds and value <= bounds["above"]:
        raise _refusal(item.name, value, f"more than {bounds['above']}")


def _refusal(name: str, value: Any, allowed: str) -> ConfigError:
    return ConfigError(f"{name} is {value!r}: allowed is {allowed}")
