"""Entries of other people's JSON, of the type they should have: what is missing is empty, another type is refused."""

from collections.abc import Mapping
from typing import Any

from understudy.errors import UnderstudyError


def list_in(record: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found: list[Any] = _held(record, name, list, "list", where)
    return found


def object_in(record: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found: dict[str, Any] = _held(record, name, dict, "object", where)
    return found


def objects_in(record: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    found = list_in(record, name, where)
    for each in found:
        if not isinstance(each, dict):
            raise UnderstudyError(f"{where}: {name!r} holds {each!r}, which is no object; export it again")
    return found


def word_in(record: Mapping[str, Any], name: str, where: str) -> str:
    found: str = _held(record, name, str, "text", where)
    return found


def _held(record: Mapping[str, Any], name: str, kind: Any, called: str, where: str) -> Any:
    value = record.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise UnderstudyError(f"{where}: {name!r} is {str(value)[:40]!r}, which is no {called}; export it again")
    return value
