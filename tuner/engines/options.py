"""`--set key=value` pairs, and the options a log shows, as typed values of an engine's options dataclass."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from workloads.errors import BadUsage

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_NONE = frozenset({"none", "null", ""})


def canonical_key(key: str, aliases: Mapping[str, str]) -> str:
    """`--max-num-seqs`, `max-num-seqs` and `max_num_seqs` are one key; aliases are resolved after that."""
    plain = key.strip().lstrip("-").replace("-", "_")
    return aliases.get(plain, plain)


def split_pairs(pairs: Iterable[str], *, field: str) -> dict[str, str]:
    """`KEY=VALUE` texts as names and values, the last one of a name counts.

    Args:
        field: what the pairs were given as, for the message.

    Raises:
        BadUsage: a text without `=` or without a name.
    """
    raw: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise BadUsage(f"takes KEY=VALUE, not '{pair}'", field=field)
        raw[key.strip()] = value.strip()
    return raw


def read_pairs(kind: type[Any], raw: Mapping[str, str], *, engine: str, aliases: Mapping[str, str]) -> dict[str, Any]:
    """The given options as values of the field types of `kind`; absent ones stay absent.

    Fields may be int, float, bool (true/false/1/0), str or Literal, each also `| None` (written `none`).

    Raises:
        BadUsage: an unknown key (the nearest names are listed), the same option twice, or a value of the wrong type.
    """
    known = _field_types(kind)
    given: dict[str, Any] = {}
    for key, text in raw.items():
        name = canonical_key(key, aliases)
        if name not in known:
            raise BadUsage(f"{engine} has no option '{key}'{_nearest(name, [*known, *aliases])}", field=key)
        if name in given:
            raise BadUsage(f"is given twice ('{key}' is another name of it)", field=name)
        given[name] = _value(known[name], text.strip(), name)
    return given


def known_options(kind: type[Any], raw: Mapping[str, str], aliases: Mapping[str, str]) -> dict[str, str]:
    """Only those pairs that `kind` knows, with a value of the right type, by their canonical names.

    A log shows many more options, and shows `None` for one that was left to the engine.
    """
    known = _field_types(kind)
    kept: dict[str, str] = {}
    for key, text in raw.items():
        name = canonical_key(key, aliases)
        if name in known and text.strip().lower() not in _NONE and _parses(known[name], text.strip(), name):
            kept[name] = text.strip()
    return kept


def require_positive(options: object, *names: str, least: int = 1) -> None:
    """Refuse values below `least`; None passes.

    Raises:
        BadUsage: naming the first option that is too small.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise BadUsage(f"must be at least {least}, not {value}", field=name)


def require_above_zero(options: object, *names: str) -> None:
    """Refuse quantities that are not finite and above 0; None passes.

    Raises:
        BadUsage: naming the first such option.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise BadUsage(f"must be a number above 0, not {value}", field=name)


def _field_types(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind)}


def _parses(wanted: Any, text: str, name: str) -> bool:
    try:
        _value(wanted, text, name)
    except BadUsage:
        return False
    return True


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else f"; it knows {', '.join(sorted(known, key=str.lower))}"


def _value(wanted: Any, text: str, name: str) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        if text.lower() in _NONE:
            return None
        wanted = next(part for part in get_args(wanted) if part is not type(None))
    if get_origin(wanted) is Literal:
        return _choice(get_args(wanted), text, name)
    if wanted is bool:
        return _flag(text, name)
    if wanted is str:
        return text
    try:
        return wanted(text)
    except ValueError:
        noun = "a whole number" if wanted is int else "a number"
        raise BadUsage(f"must be {noun}, not '{text}'", field=name) from None


def _choice(choices: tuple[str, ...], text: str, name: str) -> str:
    for choice in choices:
        if choice.lower() == text.lower():
            return choice
    raise BadUsage(f"must be one of {', '.join(choices)}, not '{text}'", field=name)


def _flag(text: str, name: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise BadUsage(f"must be true or false, not '{text}'", field=name)
