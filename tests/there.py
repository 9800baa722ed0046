"""A value that a test needs, where a function may return None."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def there(value: Value | None) -> Value:
    assert value is not None
    return value
