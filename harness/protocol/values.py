"""Frozen dataclasses that are cheap to make: a schedule makes tens of thousands of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast, dataclass_transform

_T = TypeVar("_T")
_BECOME = object.__dict__["__class__"].__set__
_ALLOCATE = object.__new__
_makers: dict[type, Callable[..., Any]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[_T]) -> type[_T]:
    """``cls`` as a frozen, slotted, keyword-only dataclass; needs annotated fields, no base class.

    The `__init__` of a frozen dataclass calls ``object.__setattr__`` once per field. This one
    fills the fields of an instance of another class, which has the same slots and is not frozen,
    and then sets its ``__class__`` to ``cls``: the same value, as frozen, in little more than half
    of the time.
    """
    frozen = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    given = fields(frozen)  # type: ignore[arg-type]  # `dataclass` has just made it one
    names = [field.name for field in given]
    unfrozen = type(cls.__name__, (), {"__slots__": tuple(names)})
    defaults = {f"_{field.name}": field.default for field in given if field.default is not MISSING}
    parameters = [f"{name}=_{name}" if f"_{name}" in defaults else name for name in names]
    fill = [*(f"    self.{name} = {name}" for name in names), "    self.__class__ = _frozen"]
    lines = [
        f"def __init__(self, *, {', '.join(parameters)}):",
        "    _become(self, _unfrozen)",
        *fill,
        f"def make(*, {', '.join(parameters)}):",
        "    self = _allocate(_unfrozen)",
        *fill,
        "    return self",
    ]
    scope: dict[str, Any] = {
        "_become": _BECOME,
        "_allocate": _ALLOCATE,
        "_unfrozen": unfrozen,
        "_frozen": frozen,
        **defaults,
    }
    exec("\n".join(lines), scope)  # as `dataclasses` does it: nothing from outside gets in
    frozen.__init__ = scope["__init__"]  # type: ignore[method-assign]
    _makers[frozen] = scope["make"]
    return frozen


def maker(cls: type[_T]) -> type[_T]:
    """What is called in place of ``cls``, a `value`, where very many are made: the same values
    from the same arguments, in half of the time.

    It is a function, for which the interpreter need not put the arguments into a dictionary first,
    as it does for every class. To a type checker it is the class.
    """
    return cast("type[_T]", _makers[cls])
