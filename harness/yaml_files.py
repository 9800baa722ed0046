"""YAML that people write: every mistake is refused by its line, or by the path of its key.

`parse_yaml` gives plain values, also where a key is there twice an error; `decode` makes typed
ones of them: a subclass of `Entry`, whose fields say what is allowed.

Tests: ``tests/topology/test_text.py``, and the tests of those who read such files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from harness.errors import UsageError
from harness.text import did_you_mean

T = TypeVar("T")


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """Keys and values of a file, as a base of what it may hold."""


class Mistake(ValueError):
    """A value that cannot be used; raised by the hook of `decode`, which knows where it is."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


class Word(str):
    """A text, or a number that stands for its digits."""

    @classmethod
    def read(cls, value: object) -> Word:
        """Raise `Mistake` for anything else, and for nothing."""
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value):
            raise Mistake(f"is {value!r}", "give a text")
        return cls(str(value).strip())


def read_word(kind: type, value: object) -> Any:
    """Be the hook of `decode` for fields of the type `Word`."""
    assert kind is Word, kind
    return Word.read(value)


def decode(
    kind: type[T],
    document: object,
    *,
    name: str,
    remedy: str,
    hook: Callable[[type, Any], Any] = read_word,
) -> T:
    """Return a document as a value of this type.

    ``name`` is the file's for errors, ``remedy`` leads to an example, ``hook`` reads values of
    types of one's own. Raises `UsageError` with the path of the key, what is there, and what to
    write."""
    try:
        return msgspec.convert(document, kind, dec_hook=hook)
    except msgspec.ValidationError as error:
        what, way_out = _explained(error, kind, document, remedy)
        raise UsageError(f"{name}: {what}", remedy=way_out) from None


_AT = re.compile(r" - at (?:`key` in )?`\$\.?(.*)`$")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_KINDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text",
    "array": "a list", "object": "keys and values",
}  # fmt: skip
_SIGNS = {
    "`": "", " | null": "", " | ": " or ", "of length >=": "with at least", ">=": "of at least",
    "<=": "of at most", "> ": "above ",
}  # fmt: skip


def _explained(
    error: msgspec.ValidationError, kind: Any, document: Any, remedy: str
) -> tuple[str, str]:
    """Return what is wrong and where, and what to do; ``remedy`` leads to an example."""
    text = str(error)
    at = _AT.search(text)
    said, path = (text[: at.start()], at[1]) if at else (text, "")
    form: Any = inspect.type_info(kind)
    value, shown = document, []
    for key, place in _STEP.findall(path):
        form = _below(form, key)
        if place == "...":  # one of a mapping, and msgspec does not say which
            continue
        if place:
            value = value[int(place)]
            shown.append(f"[{int(place) + 1}]")
        else:
            value = value.get(key) if isinstance(value, dict) else None
            shown.append(f".{key}")
    where = "".join(shown).lstrip(".")
    before = f"{where} " if where else "it "
    if "`key` in" in text:
        return f"{before}has a key that is no text", remedy
    if isinstance(error.__cause__, Mistake):
        return f"{before}{said}", error.__cause__.remedy
    if missing := re.search(r"missing required field `(.*)`", said):
        return f"{before}lacks {missing[1]}", f"add {missing[1]}; {remedy}"
    if unknown := re.search(r"unknown field `(.*)`", said):
        known = [field.encode_name for field in _struct(form).fields]
        return f"{before}has an unknown key {unknown[1]!r}", did_you_mean(unknown[1], known)
    if said.startswith("Invalid enum value"):
        return f"{before}is {repr(value)[:80]}", did_you_mean(str(value), _choices(form))
    wanted = said.removeprefix("Expected ").partition(", got")[0]
    for word, plain in _KINDS.items():
        wanted = re.sub(rf"\b{word}\b", plain, wanted)
    for sign, plain in _SIGNS.items():
        wanted = wanted.replace(sign, plain)
    if said.startswith("Number out of range"):
        return f"{before}is too large", "give a smaller number"
    return f"{before}is {repr(value)[:80]}", f"give {wanted}; {remedy}"


def _below(form: Any, key: str) -> Any:
    """Return the type of a key, or of the elements where there is none."""
    for each in getattr(form, "types", (form,)):
        if key and isinstance(each, inspect.StructType):
            return next((f.type for f in each.fields if f.encode_name == key), None)
        for below in ("value_type", "item_type"):
            if (inner := getattr(each, below, None)) is not None:
                return inner
    return None


def _struct(form: Any) -> inspect.StructType:
    return next(f for f in getattr(form, "types", (form,)) if isinstance(f, inspect.StructType))


def _choices(form: Any) -> list[str]:
    for each in getattr(form, "types", (form,)):
        if isinstance(each, inspect.EnumType):
            return [str(member.value) for member in each.cls]
        if isinstance(each, inspect.LiteralType):
            return [str(value) for value in each.values]
    return []


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key given twice. PyYAML's own keeps the last value silently."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: dict[tuple[str, str], yaml.Mark] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            before = seen.get((key.tag, key.value))
            if before is not None:
                problem = f"the key {key.value!r} is there twice, first in line {before.line + 1}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen[key.tag, key.value] = key.start_mark
        return node


def parse_yaml(text: str, *, name: str, remedy: str) -> Any:
    """Return the document in ``text``, called ``name`` in errors. Raises `UsageError`."""
    return _read(text, name, remedy, nodes=False)


def compose_yaml(text: str, *, name: str, remedy: str) -> yaml.Node | None:
    """Return the document as nodes, each with its line. Raises `UsageError`."""
    root: yaml.Node | None = _read(text, name, remedy, nodes=True)
    return root


def _read(text: str, name: str, remedy: str, *, nodes: bool) -> Any:
    try:
        loader = _UniqueKeys(text)
        try:
            return loader.get_single_node() if nodes else loader.get_single_data()
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise UsageError(f"{name}{where} is not YAML: {problem}", remedy=remedy) from None
