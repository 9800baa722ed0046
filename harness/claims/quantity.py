"""What a claim is about, written down before there are tables: columns, selections, statistics.

A quantity is an expression over an experiment's tables, in pandas' own words. It is computed when
a claim is judged, and it can say what it is::

    off = (rows["ours"] - rows["printed"]).abs()
    paper("close", "Ours is the printed number").every(off <= 1e-4, largest=off.max())

    passes = rows_of("passes")                       # where an experiment has several tables
    passes[passes["kills"] > 0]["wrong"] == 0        # a selection

`quantity` makes one of a function of the tables, and `applied` of any other function."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_SIGNS: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", operator.add),
    "sub": ("−", operator.sub),
    "mul": ("·", operator.mul),
    "truediv": ("/", operator.truediv),
    "pow": ("**", operator.pow),
    "mod": ("%", operator.mod),
    "and": ("and", operator.and_),
    "or": ("or", operator.or_),
    "lt": ("<", operator.lt),
    "le": ("≤", operator.le),
    "gt": (">", operator.gt),
    "ge": ("≥", operator.ge),
    "eq": ("=", operator.eq),
    "ne": ("≠", operator.ne),
}
_OF = frozenset({"all", "any", "max", "min", "mean", "median", "sum", "std", "count", "nunique",
                 "idxmax", "idxmin", "first", "quantile"})  # fmt: skip
"""Statistics: "max of x"."""
_SILENT = frozenset({"tolist", "to_dict", "to_numpy", "round", "astype", "dropna", "reset_index",
                     "set_index", "stack", "item", "copy", "fillna", "sort_values", "sort_index",
                     "reindex", "rename", "assign", "transpose", "droplevel"})  # fmt: skip
"""Methods that change the form of a value and not what it is."""


class Quantity:
    """A value that is computed from an experiment's tables when they are there."""

    __slots__ = ("_arguments", "_do", "_more", "_selected", "_words")

    def __init__(
        self,
        do: Callable[..., Any] | None,
        arguments: Sequence[Any],
        words: str,
        *,
        more: Mapping[str, Any] | None = None,
        selected: Sequence[str] = (),
    ) -> None:
        """Describe the result of a function; without one it is what the claim is judged on.

        ``words`` says what it is, and ``selected`` of which rows."""
        self._do, self._arguments, self._more = do, arguments, dict(more or {})
        self._words, self._selected = words, tuple(dict.fromkeys(selected))

    def __getattr__(self, name: str) -> Quantity:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Method(getattr, (self, name), f"{self._words}.{name}", selected=self._selected)

    def __getitem__(self, key: Any) -> Quantity:
        words, selected = self._words, self._selected
        if isinstance(key, Quantity):
            selected = (*selected, *key._selected, key._words)
        elif not isinstance(key, slice):
            name = ", ".join(map(str, key)) if isinstance(key, list | tuple) else str(key)
            if isinstance(self, _Method) and self._arguments[1] in ("iloc", "loc"):
                words = f"{self._arguments[0]._words} at {name}"
            else:
                words = name if words in _ROWS else f"{name} of {words}"
        return Quantity(operator.getitem, (self, key), words, selected=selected)

    def __abs__(self) -> Quantity:
        return Quantity(abs, (self,), f"|{self._words}|", selected=self._selected)

    def __neg__(self) -> Quantity:
        return Quantity(operator.neg, (self,), f"−{_grouped(self)}", selected=self._selected)

    def __invert__(self) -> Quantity:
        return Quantity(operator.invert, (self,), f"not {_grouped(self)}", selected=self._selected)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **_: Any) -> Any:
        assert method == "__call__"
        return applied(function, *inputs)

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        raise TypeError(f"it is not known yet whether {describe(self)}: use & and |")

    def __iter__(self) -> Any:
        raise TypeError(f"what {describe(self)} contains is not known yet")

    def _sign(self, one: Any, other: Any, name: str) -> Quantity:
        sign, function = _SIGNS[name]
        return Quantity(
            function,
            (one, other),
            f"{_grouped(one)} {sign} {_grouped(other)}",
            selected=_selections((one, other)),
        )


def _left(name: str) -> Callable[[Quantity, Any], Quantity]:
    return lambda self, other: self._sign(self, other, name)


def _right(name: str) -> Callable[[Quantity, Any], Quantity]:
    return lambda self, other: self._sign(other, self, name)


for _name in _SIGNS:
    setattr(Quantity, f"__{_name}__", _left(_name))
    setattr(Quantity, f"__r{_name}__", _right(_name))


class _Method(Quantity):
    """A method or attribute of a quantity; called, it is the method's result."""

    __slots__ = ()

    def __call__(self, *arguments: Any, **more: Any) -> Quantity:
        base, name = self._arguments
        words = base._words
        if name == "abs":
            words = f"|{words}|"
        elif name == "groupby":
            words = f"{words} by {_listed(arguments)}"
        elif name.startswith("pivot"):
            words = f"{more['values']} by {_listed([more['index'], more['columns']])}"
        elif name in _OF:
            words = f"{name} of {_grouped(base)}"
        elif name not in _SILENT:
            words = f"{words}.{name}({_listed((*arguments, *more.values()))})"
        selected = _selections((base, *arguments, *more.values()))
        return Quantity(operator.call, (self, *arguments), words, more=more, selected=selected)


_ROWS = ("rows", "rows of tables")
rows: Any = Quantity(None, (), "rows")
"""An experiment's table, as a quantity."""


def rows_of(name: str) -> Any:
    """Return one of an experiment's tables as a quantity."""
    return Quantity(operator.getitem, (rows, name), "rows of tables")


def quantity(function: Callable[Concatenate[Any, P], Any]) -> Callable[P, Any]:
    """Make a function of the tables one that returns a quantity, from its further arguments.

    Its words are the first sentence of the docstring."""
    words = named(function)

    @functools.wraps(function)
    def described(*arguments: P.args, **more: P.kwargs) -> Any:
        given = (*arguments, *more.values())
        named = f"{words} ({_listed(given)})" if given else words
        return Quantity(function, (rows, *arguments), named, more=more)

    return described


def named(function: Callable[..., Any]) -> str:
    """Return what a function returns, in words: by its docstring, or else by its name."""
    documented = (inspect.getdoc(function) or "").split("\n")[0].rstrip(".")
    name = getattr(function, "__name__", "<lambda>").strip("_").replace("_", " ")
    return documented.removeprefix("Return ") or name.replace("<lambda>", "its number")


def applied(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function makes of quantities, as a quantity."""
    words = f"{function.__name__.strip('_').replace('_', ' ')} of {_listed(arguments)}"
    return Quantity(function, arguments, words, selected=_selections(arguments))


def deferrable(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function also take quantities; its result is then a quantity as well."""

    @functools.wraps(function)
    def either(*arguments: P.args, **more: P.kwargs) -> R:
        if any(isinstance(each, Quantity) for each in _flat((arguments, more))):
            return cast(R, applied(function, *arguments, *more.values()))
        return function(*arguments, **more)

    return either


def evaluate(value: Any, tables: Any) -> Any:
    """Return ``value`` with every quantity in it computed from ``tables``, each of them once."""
    known: dict[int, Any] = {}

    def result(each: Any) -> Any:
        if isinstance(each, Quantity):
            if id(each) not in known:
                known[id(each)] = _made(each)
            return known[id(each)]
        if isinstance(each, dict):
            return {name: result(item) for name, item in each.items()}
        return type(each)(map(result, each)) if type(each) in (list, tuple) else each

    def _made(each: Quantity) -> Any:
        if each._do is None:
            return tables
        return each._do(*map(result, each._arguments), **result(each._more))

    return result(value)


def describe(value: Any) -> str:
    """Return a quantity, a number or a collection of them in words."""
    if isinstance(value, Quantity):
        among = " and ".join(value._selected)
        return f"{value._words} where {among}" if among else value._words
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {describe(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        mark = "; " if any(isinstance(each, Quantity) for each in value) else ", "
        return mark.join(dict.fromkeys(map(describe, value)))
    return str(value)


def _grouped(value: Any) -> str:
    words = value._words if isinstance(value, Quantity) else describe(value)
    bare = " " not in words or (words[0] == words[-1] == "|" and words.count("|") == 2)
    return words if bare else f"({words})"


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(
        each._words if isinstance(each, Quantity) else describe(each) for each in values
    )


def _selections(values: Sequence[Any]) -> list[str]:
    return [each for q in _flat(values) if isinstance(q, Quantity) for each in q._selected]


def _flat(value: Any) -> Sequence[Any]:
    """Return the quantities and other values in nested collections."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [inner for each in value for inner in _flat(each)]
    return [value]
