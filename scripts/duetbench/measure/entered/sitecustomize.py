"""Writes which functions this process enters into a file, each once, except those of packages.

This folder is the first of a launch's search path, so every Python process of it imports this
module at its start: workers, and what the application or a command starts. What that hides is
imported afterwards. Standard library only, for any CPython; nothing is written before 3.12.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import CodeType
from typing import Any

FOLDER = "DUETBENCH_ENTERED"
"""Variable with the folder for the files; each has the name of its process."""

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - imports less
_PACKAGES = tuple({os.path.dirname(os.__file__), sys.base_prefix + os.sep + "lib"})  # noqa: PTH120


def _write(text: str = "") -> None:
    # Opened each time: an application that becomes a daemon closes what it does not know.
    path = f"{os.environ.get(FOLDER, '')}{os.sep}{os.getpid()}"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, text.encode("utf-8", "surrogateescape"))
        os.close(descriptor)
    except OSError:  # it would be the application's error
        pass


def _enter(code: CodeType, _offset: int) -> object:
    file = code.co_filename
    if file[:1] != "<" and "site-packages" not in file and not file.startswith(_PACKAGES):
        name = getattr(code, "co_qualname", code.co_name)  # from 3.11 on
        _write(f"{name}\t{os.path.abspath(file)}\n")  # noqa: PTH100
    return _monitoring.DISABLE


_monitoring: Any = getattr(sys, "monitoring", None)

if _monitoring is not None and FOLDER in os.environ:
    _tool = next(tool for tool in (5, 4, 3, 2) if _monitoring.get_tool(tool) is None)
    _monitoring.use_tool_id(_tool, "duetbench")
    _monitoring.register_callback(_tool, _monitoring.events.PY_START, _enter)
    _monitoring.set_events(_tool, _monitoring.events.PY_START)
    _write()
    os.register_at_fork(after_in_child=_write)

_others = [path for path in sys.path if os.path.abspath(path) != _HERE]  # noqa: PTH100
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _hidden is not None and _hidden.loader is not None:
    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))
