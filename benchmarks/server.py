"""How fast the server is, measured beside a minimal echo environment on the same `create_app`.

    python benchmarks/server.py                 # the table: 1, 16, 64 and 256 sessions of 20 steps
    python benchmarks/server.py --soak          # and 10,000 short sessions, watching for leaks
    python benchmarks/server.py --dataset DIR   # on other data than the embedded

Both servers run under the same uvicorn settings and are driven by the same client, in turns, so a
busy machine slows both. The client is a bare one, so that the server is what is measured. A session
plays two episodes of ten steps (describe, sample, queries, answer) and checks on every step that it
sees its own question and its own history, byte for byte. The echo environment gets messages of the
same size and is checked the same way.

What must hold: ratio >= 0.7 at every level; no lost or mixed step; the others' p99 below twice its
normal value while one session runs a query into its deadline; no growth over the soak.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table

from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset

LEVELS = (1, 16, 64, 256)
EPISODES, STEPS = 2, 10
HOGS = (0, 1, 8)
ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
OURS, ECHO = "SQLEnv", "echo"
console = Console()


# -- servers -------------------------------------------------------------------------------------


def serve_echo(port: int) -> None:
    """The smallest environment there is, under the settings that `sql-env serve` uses."""
    import uvicorn
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    class EchoAction(Action):
        message: str

    class EchoObservation(Observation):
        message: str

    class EchoEnvironment(Environment[EchoAction, EchoObservation, State]):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, *_: Any, **__: Any) -> EchoObservation:
            return EchoObservation(message="ready")

        def step(self, action: EchoAction, *_: Any, **__: Any) -> EchoObservation:
            return EchoObservation(message=action.message, reward=0.0)

        @property
        def state(self) -> State:
            return State()

    app = create_app(EchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=1024)
    uvicorn.run(app, port=port, log_level="warning", ws_per_message_deflate=False)


@contextmanager
def server(name: str, port: int, dataset: Path | None, workers: int = 1) -> Iterator[int]:
    """A running server's process id."""
    if name == ECHO:
        command = [sys.executable, __file__, "--serve-echo", str(port)]
    else:
        command = [sys.executable, "-c", "from sql_env.cli import main; main()", "serve"]
        command += ["--port", str(port), "--max-sessions", "1024", "--workers", str(workers)]
        command += ["--dataset", str(dataset)] if dataset else []
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise SystemExit(f"the {name} server did not start: {' '.join(command)}")
            try:
                urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


# -- what a session plays ------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    """One episode: the question and the actions that play it."""

    question_id: str
    question: str
    actions: list[tuple[str, str]]


def write_scripts(records: list[QuestionRecord], dataset: Dataset) -> list[Script]:
    """Ten steps for each question, ending with the right answer."""
    scripts = []
    with SQLEnvironment(db_dir=dataset.db_dir, questions=records) as env:
        for record in records:
            tables = env.reset(question_id=record.question_id).table_names
            looks = [(kind, name) for name in tables[:3] for kind in ("DESCRIBE", "SAMPLE")]
            counts = [("QUERY", f'SELECT count(*) FROM "{name}"') for name in tables]
            actions = [*looks, *counts, *counts, *counts][: STEPS - 2]
            actions += [("QUERY", record.gold_sql), ("ANSWER", "@last")]
            scripts.append(Script(record.question_id, record.question_text, actions))
    return scripts


@dataclass
class Tally:
    """What the sessions of one run saw."""

    seconds: float = 0.0
    steps: int = 0
    faults: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.steps / self.seconds

    def percentile(self, percent: int) -> float:
        return 1000 * statistics.quantiles(self.latencies, n=100)[percent - 1]


class Session(asyncio.Protocol):
    """A WebSocket client that does nothing but send a frame and wait for a frame."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport  # from `open` on

    @classmethod
    async def open(cls, port: int) -> Session:
        """A session that exists: the server makes it between the handshake and its first answer."""
        loop = asyncio.get_running_loop()
        transport, session = await loop.create_connection(cls, "127.0.0.1", port)
        session._transport = transport
        head = (
            "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        )
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        await session._wait(head.encode())
        await session.ask(b'{"type":"state"}')
        return session

    async def ask(self, payload: bytes) -> bytes:
        """One text frame, masked with zeros, and the answer to it."""
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack("!H", size)
        return await self._wait(b"\x81" + length + b"\0\0\0\0" + payload)

    async def reset(self, data: dict[str, Any]) -> bytes:
        return await self.ask(json.dumps({"type": "reset", "data": data}).encode())

    async def step(self, data: dict[str, Any]) -> bytes:
        return await self.ask(json.dumps({"type": "step", "data": data}).encode())

    def close(self) -> None:
        self._transport.close()

    async def _wait(self, data: bytes) -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._frame_end()) and len(self._buffer) >= end:
            frame, self._buffer = self._buffer[:end], self._buffer[end:]
            if frame[0] != 0x89 and self._answer and not self._answer.done():  # not a ping
                self._answer.set_result(frame)

    def _frame_end(self) -> int:
        head = self._buffer
        if head.startswith(b"HTTP"):
            return head.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in head else 0
        if len(head) < 10:
            return 2 + head[1] if len(head) >= 2 and head[1] < 126 else 0
        if head[1] < 126:
            return 2 + head[1]
        wide = head[1] == 127
        length: int = struct.unpack_from("!Q" if wide else "!H", head, 2)[0]
        return (10 if wide else 4) + length

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))


async def play_ours(session: Session, script: Script, tally: Tally, pause: float) -> None:
    await session.reset({"question_id": script.question_id})
    question = b'"question":' + to_json(script.question) + b","
    history: list[str] = []
    for kind, argument in script.actions:
        if pause:
            await asyncio.sleep(random.uniform(0, 2 * pause))
        history.append(f"{kind}: {argument.strip()}")
        began = time.perf_counter()
        answer = await session.step({"action_type": kind, "argument": argument})
        tally.latencies.append(time.perf_counter() - began)
        tally.steps += 1
        own = question in answer and b'"action_history":' + to_json(history) + b"," in answer
        tally.faults += not own
    tally.faults += b'"stop_reason":"correct"' not in answer


async def play_echo(session: Session, script: Script, tally: Tally, _: float) -> None:
    await session.reset({})
    for kind, argument in script.actions:
        message = f"{kind}: {argument}"
        began = time.perf_counter()
        answer = await session.step({"message": message})
        tally.latencies.append(time.perf_counter() - began)
        tally.steps += 1
        tally.faults += b'"message":' + to_json(message) not in answer


async def run_sessions(
    name: str, port: int, sessions: int, scripts: list[Script], *, pause: float = 0.0,
    rounds: int = 1,
) -> Tally:  # fmt: skip
    """`sessions` at the same time, each with episodes of its own; opening them is not counted."""
    play = play_ours if name == OURS else play_echo
    tally = Tally()

    async def episodes(session: Session, chooser: random.Random) -> None:
        for _ in range(EPISODES):
            await play(session, chooser.choice(scripts), tally, pause)

    for turn in range(rounds):
        opened = [await Session.open(port) for _ in range(sessions)]
        began = time.perf_counter()
        await asyncio.gather(
            *(episodes(item, random.Random(f"{turn} {i}")) for i, item in enumerate(opened))
        )
        tally.seconds += time.perf_counter() - began
        for session in opened:
            session.close()
    return tally


def merge(tallies: list[Tally]) -> Tally:
    return Tally(
        sum(t.seconds for t in tallies),
        sum(t.steps for t in tallies),
        sum(t.faults for t in tallies),
        [latency for t in tallies for latency in t.latencies],
    )


# -- the measurements ----------------------------------------------------------------------------


def measure_throughput(ports: dict[str, int], scripts: list[Script], repeats: int) -> bool:
    table = Table(title="steps per second, sessions of 20 steps at the same time")
    for column in ("sessions", "echo", "SQLEnv", "ratio", "p50 ms", "p99 ms", "lost or mixed"):
        table.add_column(column, justify="right")
    good = True
    for sessions in LEVELS:
        runs: dict[str, list[Tally]] = {ECHO: [], OURS: []}
        rounds = max(1, 64 // sessions)
        for turn in range(repeats + 1):
            for name in (ECHO, OURS):
                tally = asyncio.run(
                    run_sessions(name, ports[name], sessions, scripts, rounds=rounds)
                )
                if turn:  # the first turn warms caches and threads
                    runs[name].append(tally)
        ratio = statistics.median(
            ours.rate / echo.rate for ours, echo in zip(runs[OURS], runs[ECHO], strict=True)
        )
        ours, echo = merge(runs[OURS]), merge(runs[ECHO])
        good &= ratio >= 0.7 and ours.faults == 0
        table.add_row(
            str(sessions), f"{echo.rate:,.0f}", f"{ours.rate:,.0f}", f"{ratio:.2f}",
            f"{ours.percentile(50):.2f}", f"{ours.percentile(99):.2f}", str(ours.faults),
        )  # fmt: skip
    console.print(table)
    return good


def measure_deadline(port: int, scripts: list[Script], turns: int) -> bool:
    """The others' latency, with and without sessions that run every query into its deadline."""

    async def others(hogs: int) -> Tally:
        opened = [await Session.open(port) for _ in range(hogs)]
        running = [asyncio.create_task(run_into_deadline(session)) for session in opened]
        tally = await run_sessions(OURS, port, 16, scripts, pause=0.02, rounds=5)
        for task, session in zip(running, opened, strict=True):
            assert not task.done(), task.exception()
            task.cancel()
            session.close()
        return tally

    async def run_into_deadline(session: Session) -> None:
        while True:
            await session.reset({"question_id": scripts[0].question_id})
            answer = await session.step({"action_type": "QUERY", "argument": ENDLESS})
            assert b'"error_kind":"timeout"' in answer

    async def in_turns() -> dict[int, Tally]:
        seen: dict[int, list[Tally]] = {hogs: [] for hogs in HOGS}
        for _ in range(turns):
            for hogs, tallies in seen.items():
                tallies.append(await others(hogs))
        return {hogs: merge(tallies) for hogs, tallies in seen.items()}

    seen = asyncio.run(in_turns())
    table = Table(title="16 sessions, while others run queries into their deadline")
    for column in ("others", "steps", "p50 ms", "p99 ms", "p99 ratio", "lost or mixed"):
        table.add_column(column, justify="right")
    for hogs, tally in seen.items():
        ratio = tally.percentile(99) / seen[0].percentile(99)
        table.add_row(
            str(hogs), f"{tally.steps:,}", f"{tally.percentile(50):.2f}",
            f"{tally.percentile(99):.2f}", f"{ratio:.2f}", str(tally.faults),
        )  # fmt: skip
    console.print(table)
    one = seen[1].percentile(99) / seen[0].percentile(99)
    return one < 2 and not any(tally.faults for tally in seen.values())


def measure_soak(port: int, pid: int, script: Script, sessions: int) -> bool:
    """Short sessions in a row; the server's descriptors, threads and memory must stay."""

    async def some(count: int) -> None:
        for _ in range(count):
            session = await Session.open(port)
            await session.reset({"question_id": script.question_id})
            await session.step({"action_type": "QUERY", "argument": script.actions[-2][1]})
            session.close()

    table = Table(title=f"{sessions:,} short sessions in a row")
    for column in ("sessions", "descriptors", "threads", "memory MB"):
        table.add_column(column, justify="right")
    readings = []
    for done in range(0, sessions + 1, sessions // 10):
        if done:
            asyncio.run(some(sessions // 10))
            time.sleep(0.5)
        readings.append(read_process(pid))
        table.add_row(f"{done:,}", *(f"{value:,}" for value in readings[-1]))
    console.print(table)
    (fds, threads, memory), last = readings[1], readings[-1]
    return last[0] <= fds + 2 and last[1] <= threads + 2 and last[2] <= memory * 1.05


def read_process(pid: int) -> tuple[int, int, int]:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    memory = int(status["VmRSS"].split()[0]) // 1024
    return len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]), memory


def measure_workers(dataset: Path | None, scripts: list[Script], port: int) -> None:
    """Two workers beside one, driven by two client processes."""
    rates: dict[int, list[float]] = {}
    for workers in (1, 2):
        with (
            server(OURS, port + workers, dataset, workers),
            multiprocessing.get_context("fork").Pool(2) as pool,
        ):
            for turn in range(3):
                began = time.perf_counter()
                jobs = [(port + workers, 32, scripts, seed) for seed in range(2)]
                steps = sum(pool.starmap(drive, jobs))
                if turn:
                    rates.setdefault(workers, []).append(steps / (time.perf_counter() - began))
    one, two = (statistics.median(rates[workers]) for workers in (1, 2))
    console.print(
        f"64 sessions: one worker {one:,.0f} steps/s, two workers {two:,.0f}, "
        f"ratio {two / one:.2f} on {os.cpu_count()} cores that the clients share"
    )


def drive(port: int, sessions: int, scripts: list[Script], seed: int) -> int:
    """A client process of its own."""
    random.seed(seed)
    return asyncio.run(run_sessions(OURS, port, sessions, scripts, rounds=2)).steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", type=Path, help="a dataset folder; default: the embedded data")
    parser.add_argument("--repeats", type=int, default=9, help="timed turns at every level")
    parser.add_argument("--soak", action="store_true", help="also 10,000 short sessions")
    parser.add_argument("--port", type=int, default=8710)
    parser.add_argument("--serve-echo", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_echo:
        serve_echo(options.serve_echo)
        return
    dataset = Dataset.at(options.dataset)
    records = random.Random(0).sample(pool := dataset.load(), min(200, len(pool)))
    scripts = write_scripts(records, dataset)
    ports = {ECHO: options.port, OURS: options.port + 1}
    with (
        server(ECHO, ports[ECHO], None),
        server(OURS, ports[OURS], options.dataset) as pid,
    ):
        good = measure_throughput(ports, scripts, options.repeats)
        good &= measure_deadline(ports[OURS], scripts, options.repeats)
        if options.soak:
            good &= measure_soak(ports[OURS], pid, scripts[0], 10_000)
    measure_workers(options.dataset, scripts, options.port + 1)
    console.print("[green]everything holds[/]" if good else "[red]something does not hold[/]")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
