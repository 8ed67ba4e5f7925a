"""Every page of the documentation that shows output, executed from its first block to its last.

What a block's language promises:
    console   every command is run, and prints what stands below it
    pycon     a doctest
    python    is run, and prints the `text` block that follows, where one does
    toml      is the file that the next command reads
    bash      is not run (it takes hours, a network or an account); it shows no output, and
              `test_docs.py` looks up the options it names
"""

from __future__ import annotations

import doctest
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from bakery import make_bakery
from fenced_blocks import Block, Command, blocks_of, commands_of, shows

CHECKOUT = Path(__file__).resolve().parent.parent
PAGES = sorted((CHECKOUT / "docs").glob("*.md"))
# Its transcript is that of a run in `results/`, and `tests/tools` compares them.
FROM_RUNS = {"results.md"}
# Its examples train for hours; `tests/training` runs the notebook that it accompanies.
TRAINING = {"training.md"}
TIME = r"\d{8}-\d{6}"


def pages_with(*languages: str) -> list[str]:
    return [
        page.name
        for page in PAGES
        if page.name not in FROM_RUNS | TRAINING
        and any(block.language in languages for block in blocks_of(page))
    ]


@pytest.mark.parametrize("page", pages_with("pycon"))
def test_the_examples_of_a_page_do_what_they_say(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(
        str(CHECKOUT / "docs" / page),
        module_relative=False,
        encoding="utf-8",
        optionflags=doctest.ELLIPSIS,
    )
    assert found.attempted > 5
    assert found.failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("console", "python"))
def test_the_commands_of_a_page_print_what_it_shows(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    make_bakery(tmp_path)
    (tmp_path / "checkpoints").symlink_to(CHECKOUT / "checkpoints")
    blocks = blocks_of(CHECKOUT / "docs" / page)
    server = _Server(tmp_path)
    with server.running():
        for block, following in pairwise([*blocks, Block("", "", 0)]):
            where = f"{page}, line {block.line}"
            if block.language == "toml":
                (tmp_path / "bakery.toml").write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                for command in commands_of(block):
                    if command.line == "sql-env serve":
                        server.start(command, where)
                    else:
                        _run(command, tmp_path, where, request)
            elif block.language == "python":
                shown = following.text if following.language == "text" else ""
                _run_python(server.at(block.text), shown, tmp_path, where)


def test_pages_show_output_only_where_it_is_run() -> None:
    """No language is invented, and what is not run shows commands only."""
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language in {"", "bash", "console", "json", "pycon", "python", "sql"} | {
                "text",
                "toml",
            }, f"{page.name}, line {block.line}: {block.language}"
            if block.language in ("", "text") and page.name not in FROM_RUNS:
                assert not re.search(r"^\$ ", block.text, re.MULTILINE), (
                    f"{page.name}, line {block.line}: a command outside a console block"
                )
        for block, following in pairwise(blocks_of(page)):
            shown = following.language == "text" and page.name not in FROM_RUNS
            if block.language in ("bash", "text") and shown:
                first = following.text.splitlines()[0]
                assert first.endswith("/"), f"{page.name}, line {following.line}: output nobody ran"


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKOUT),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _run(command: Command, folder: Path, where: str, request: pytest.FixtureRequest) -> None:
    line = command.line
    if line.startswith("sql-env data spider"):
        line += f" --source {request.getfixturevalue('spider_dir')}"
    for name in set(re.findall(rf"runs/{TIME}-([\w-]+)", line)):  # the page's clock is not ours
        (run,) = (folder / "runs").glob(f"*-{name}")
        line = re.sub(rf"runs/{TIME}-{name}", f"runs/{run.name}", line)
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=500,
    )
    wanted, printed = (re.sub(TIME, "…", text) for text in (command.output, done.stdout))
    refused = wanted.startswith("error: ")
    if refused:
        printed = done.stderr
    assert bool(done.returncode) == refused, f"{where}: {line}\n{done.stdout}\n{done.stderr}"
    if wanted.strip():
        assert shows(printed, wanted), f"{where}: {line} prints\n{printed}"


def _run_python(code: str, shown: str, folder: Path, where: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"{where}: {done.stderr[-3000:]}"
    if shown:
        assert shows(done.stdout, shown), f"{where} prints\n{done.stdout}"


class _Server:
    """The server of a page, on a free port in place of the one that the page names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "serve.log"
        self._process: subprocess.Popen[str] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]

    def at(self, text: str) -> str:
        return text.replace("127.0.0.1:8000", f"127.0.0.1:{self._port}")

    def start(self, command: Command, where: str) -> None:
        import httpx

        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command.line.split(), "--port", str(self._port)],
                cwd=self._folder,
                env=_environment(),
                stderr=log,
                text=True,
            )
        deadline = time.monotonic() + 120
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                httpx.get(f"http://127.0.0.1:{self._port}/health", timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        said = self._log.read_text()
        assert shows(said, self.at(command.output) + "\n…"), f"{where} prints\n{said}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Whatever was started ends with this."""
        try:
            yield
        finally:
            if self._process is not None:
                self._process.terminate()
                self._process.wait(timeout=30)
