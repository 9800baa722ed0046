"""Python files of a user's own as modules, also on machines that do not have them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from harness.errors import UsageError

_CARRIED: dict[str, str] = {}
"""Path to the text of a file on the machine of its origin."""


def carry(files: Mapping[str, str]) -> None:
    """Let `load_file` execute these texts under their paths, whatever this machine has there."""
    _CARRIED.update(files)


def load_file(path: Path) -> ModuleType:
    """Execute a Python file as a module of its own name and keep it in ``sys.modules``."""
    path = path.resolve()
    if str(path.parent) not in sys.path:  # as for a script, but behind everything else
        sys.path.append(str(path.parent))
    name = f"faultline_file_{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}"
    loaded = sys.modules.get(name)
    text = _CARRIED.get(str(path))
    if loaded is not None and loaded.__file__ == str(path):
        if text in (None, loaded.__dict__.get("__carried__")):
            return loaded
    elif text is None and not path.is_file():
        raise UsageError(f"there is no file {path}", remedy="give the path of a Python file")
    module = ModuleType(name)
    module.__file__ = str(path)
    module.__dict__["__carried__"] = text
    sys.modules[name] = module
    try:
        code = compile(path.read_bytes() if text is None else text, str(path), "exec")
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def forget(path: Path) -> None:
    """Drop a file's module, and those from its folder: `load_file` executes them anew."""
    folder = path.resolve().parent
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and folder in Path(file).parents and name != "__main__":
            del sys.modules[name]
