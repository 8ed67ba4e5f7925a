"""What is deployed: the manifest, the folder for `openenv push`, and the image, step by step."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from openenv.cli.__main__ import app as openenv_command
from openenv.cli.commands.push import (
    DEFAULT_PUSH_IGNORE_PATTERNS,
    _prepare_staging_directory,
    _validate_openenv_directory,
)
from typer.testing import CliRunner
from websockets.sync.client import connect

from sql_env import SQLEnvironment, __version__
from sql_env.agent.playing import plan_of, play
from sql_env.agent.policies import OraclePolicy
from sql_env.agent.smollm2 import cache_dir
from sql_env.core.reward import RewardConfig
from sql_env.questions import Dataset

CHECKOUT = Path(__file__).resolve().parents[2]
MODEL = "smollm2-135m-sqlenv"


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assembled") / "space"
    script = CHECKOUT / "scripts" / "assemble_space.py"
    subprocess.run([sys.executable, script, folder], check=True, capture_output=True)
    return folder


def validate_here() -> str:
    result = CliRunner().invoke(openenv_command, ["validate", "."])
    assert result.exit_code == 0, result.output
    return result.output


def test_openenv_validates_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of it: other tests write caches into the checkout while OpenEnv takes its digest."""
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "build", "checkpoints", "spider", "runs")
    monkeypatch.chdir(shutil.copytree(CHECKOUT, tmp_path / "copy", ignore=unwanted))
    assert "PASS  static.manifest" in validate_here()


def test_openenv_validates_the_space(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(space)
    assert "PASS  static.manifest" in validate_here()


def test_the_manifest_says_what_is_true() -> None:
    manifest = yaml.safe_load((CHECKOUT / "openenv.yaml").read_text())
    assert manifest["version"] == __version__
    declared = manifest["validation"]
    low, high = declared["reward"]["range"]
    assert (low, high) == RewardConfig().episode_range
    with SQLEnvironment(rewards="end") as env:
        played = play(env, OraclePolicy(env.questions), plan_of(env.questions))
        last_rewards = [one.episode.steps[-1].reward for one in played]
    assert min(last_rewards) >= high - declared["reward"]["oracle_tolerance"]
    counts = Counter(record.split for record in Dataset.embedded().load())
    assert declared["capabilities"]["declared_task_count"] == counts
    module, _, name = manifest["app"].partition(":")
    assert (CHECKOUT / module.replace(".", "/")).with_suffix(".py").is_file() and name == "app"


def test_openenv_push_accepts_the_folder_and_leaves_the_image_as_it_is(
    space: Path, tmp_path: Path
) -> None:
    name, _ = _validate_openenv_directory(space)
    assert name == "sql_env"
    staged = tmp_path / "staged"
    _prepare_staging_directory(space, name, staged, list(DEFAULT_PUSH_IGNORE_PATTERNS))
    assert (staged / "Dockerfile").read_text() == (space / "Dockerfile").read_text()
    assert (staged / "checkpoints" / MODEL / "delta.safetensors").is_file()
    assert (staged / "README.md").read_text() == (space / "README.md").read_text()
    front = yaml.safe_load((staged / "README.md").read_text().split("---")[1])
    assert front["sdk"] == "docker" and front["base_path"] == "/web" and front["app_port"] == 8000
    assert (staged / "data" / "databases").is_dir()


def test_nothing_but_the_embedded_data_is_shipped(space: Path) -> None:
    assert sorted(item.name for item in (space / "data").iterdir()) == ["databases", "questions"]
    assert not list(space.rglob("__pycache__"))


class Image:
    """Does what a Dockerfile says, with a folder in the place of the image's root.

    Third-party packages come from the environment that runs the tests, in place of a download of a
    hundred of them, and its base model from the user's cache where it lies there; the package
    itself is built, installed and started from the folder alone. User accounts are not made: the
    last user is only looked at.
    """

    def __init__(self, context: Path, root: Path) -> None:
        self.context, self.root = context, root
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(root)}
        self.workdir = "/"
        self.user = "root"
        self.ports: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []
        for line in instructions(context / "Dockerfile"):
            name, _, rest = line.partition(" ")
            getattr(self, f"do_{name.lower()}")(rest.strip())

    def at(self, path: str) -> Path:
        return self.root / os.path.join(self.workdir, path).lstrip("/")

    def mapped(self, text: str) -> str:
        return text.replace("/opt/venv", str(self.root / "opt" / "venv"))

    def do_from(self, _: str) -> None:
        self.earlier = self.root.with_name("earlier-stage")
        if self.root.exists():
            self.root.rename(self.earlier)
        self.root.mkdir()
        self.workdir = "/"
        if cache_dir().is_dir():
            (self.root / ".cache").mkdir()
            (self.root / ".cache" / "sql_env").symlink_to(cache_dir())

    def do_workdir(self, path: str) -> None:
        self.workdir = path
        self.at("").mkdir(parents=True, exist_ok=True)

    def do_copy(self, rest: str) -> None:
        *sources, target = (word for word in rest.split() if not word.startswith("--"))
        for source in sources:
            if rest.startswith("--from=build"):
                # Moved, and to where it was: a virtual environment knows its own place.
                self.at(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(self.earlier / source.lstrip("/"), self.at(target))
            elif (self.context / source).is_dir():
                shutil.copytree(self.context / source, self.at(target))
            else:
                shutil.copy(self.context / source, self.at(target))

    def do_run(self, command: str) -> None:
        if command.startswith("useradd"):
            assert "--uid 1000" in command
            return
        done = subprocess.run(
            self.mapped(command),
            shell=True,
            cwd=self.at(""),
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if "-m venv" in command:
            (site,) = (self.root / "opt" / "venv" / "lib").glob("python*/site-packages")
            (site / "third_party.pth").write_text(str(Path(pytest.__file__).parents[1]))

    def do_user(self, user: str) -> None:
        self.user = user

    def do_env(self, rest: str) -> None:
        self.environment |= dict(item.split("=", 1) for item in shlex.split(self.mapped(rest)))

    def do_expose(self, port: str) -> None:
        self.ports.append(port)

    def do_healthcheck(self, rest: str) -> None:
        self.health = json.loads(rest[rest.index("[") :])

    def do_cmd(self, rest: str) -> None:
        self.command = json.loads(rest)


def instructions(dockerfile: Path) -> list[str]:
    lines = [line for line in dockerfile.read_text().splitlines() if not line.startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.slow
def test_the_image_built_step_by_step_serves_and_is_healthy(space: Path, tmp_path: Path) -> None:
    context = shutil.copytree(space, tmp_path / "context")
    image = Image(context, tmp_path / "root")
    shutil.rmtree(image.earlier)
    shutil.rmtree(context)
    assert image.user == "1000" and image.ports == ["8000"]
    assert image.environment["ENABLE_WEB_INTERFACE"] == "false"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command, health = (
        [word.replace("8000", port) for word in words] for words in (image.command, image.health)
    )
    command[0] = str(image.root / "opt" / "venv" / "bin" / command[0])
    server = subprocess.Popen(command, cwd=image.at(""), env=image.environment)
    watched = urlencode({"policy": MODEL, "question": "city_transit_0061"})
    try:
        until = time.monotonic() + 240
        while subprocess.run(health, env=image.environment, capture_output=True).returncode:
            assert server.poll() is None and time.monotonic() < until, "never healthy"
            time.sleep(0.3)
        page = urlopen(f"http://127.0.0.1:{port}/").read().decode()
        assert "/web/static/page.js" in page
        assert b"drawGrid" in urlopen(f"http://127.0.0.1:{port}/web/static/draw.js").read()
        with connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as ws:
            ws.send(json.dumps({"type": "reset", "data": {"split": "eval", "index": 0}}))
            asked = json.loads(ws.recv())["data"]["observation"]
        first = next(item for item in Dataset.embedded().load() if item.split == "eval")
        assert asked["question"] == first.question_text
        with connect(f"ws://127.0.0.1:{port}/web/watch?{watched}", proxy=None) as ws:
            ws.recv()
            ws.send("next")
            while (frame := json.loads(ws.recv(timeout=120)))["type"] == "writing":
                pass
        assert frame["type"] == "step" and frame["data"]["action"]["action_type"] == "DESCRIBE"
    finally:
        server.terminate()
        server.wait(20)
