"""How much memory this process has come to use, as Linux counts it.

`VmHWM` is the most that was ever resident; writing 5 to `/proc/self/clear_refs` sets it back to
what is resident now. Before each measurement the C library is told to return what it holds but does
not use: otherwise an attack could hide in the memory that the one before it left behind.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
Result = TypeVar("Result")


def can_measure() -> bool:
    """Linux with the GNU C library, and a kernel that lets a process reset its peak."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return hasattr(ctypes.CDLL(None), "malloc_trim")


def resident_bytes() -> int:
    ctypes.CDLL(None).malloc_trim(0)
    return _read("VmRSS")


def peak_growth(call: Callable[[], Result]) -> tuple[Result, int]:
    """What `call` returns, and how many bytes the process grew at the most while it ran."""
    before = resident_bytes()
    _CLEAR.write_text("5")
    result = call()
    return result, _read("VmHWM") - before


def _read(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        name, value = line.split(":", 1)
        if name == field:
            return int(value.split()[0]) * 1024
    raise KeyError(field)
