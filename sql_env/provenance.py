"""Where numbers come from: versions, machine, commit, time. Every kind of run records them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw


def current_versions() -> dict[str, str]:
    """What the numbers were made with; libraries only where they are in use."""
    found = {"python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    for name in ("sql_env", "torch", "transformers", "trl", "peft"):
        if name in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = str(getattr(sys.modules[name], "__version__", "?"))
    return found


def current_machine() -> str:
    """The GPU that torch has found, if it is in use, or the processor's kind."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def current_commit() -> str:
    """The checkout's commit, with a + where files were changed; empty outside a checkout."""
    checkout = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
