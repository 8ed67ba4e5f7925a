"""A small OpenAI-compatible server, run as a process of its own by the endpoint's tests.

    python chat_endpoint.py PORT

The model's name says how it behaves: `actor` plays well, `busy` refuses each conversation's first
request, `slow` never answers in time, and so on.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

app = FastAPI()
lock = threading.Lock()
seen: Counter[str] = Counter()
load = {"now": 0, "most": 0}
last_body: dict[str, Any] = {}
answered: dict[str, list[int]] = {}  # by model: which turns, in the order of their answers

PLAN = ("DESCRIBE: Singer\nQUERY: SELECT count(*) FROM singer\nANSWER: @last", "ANSWER: @last")
CALLS = (
    [("describe", {"table": "Singer"}), ("query", {"sql": "SELECT count(*) FROM singer"})],
    [("answer", {"value": "@last"})],
)
SCRIPT = ("DESCRIBE: Singer", "QUERY: SELECT count(*) FROM singer", "ANSWER: 4")


@app.get("/statistics")
def statistics() -> dict[str, Any]:
    return {
        "requests": sum(seen.values()),
        "most_at_once": load["most"],
        "last_body": last_body,
        "answered": answered,
    }


@app.post("/v1/chat/completions")
def complete(request: Request, body: dict[str, Any]) -> Response:
    model = body["model"]
    last_question = max(
        n for n, message in enumerate(body["messages"]) if "Question:" in (message["content"] or "")
    )  # an example may come before it
    told = body["messages"][last_question:]
    turn = sum(message["role"] == "assistant" for message in told)
    with lock:
        last_body.update(body)
        seen[f"{model}/{turn}"] += 1
        attempts = seen[f"{model}/{turn}"]
        load["now"] += 1
        load["most"] = max(load["most"], load["now"])
    try:
        if model == "locked" and request.headers.get("authorization") != "Bearer secret":
            return JSONResponse({"error": "no such key"}, 401)
        if model == "busy" and attempts % 2:
            return JSONResponse({"error": "later"}, 429, headers={"Retry-After": "0.01"})
        if model == "broken":
            return PlainTextResponse("overloaded", 503)
        if model == "nonsense":
            return PlainTextResponse("<html>hello</html>")
        if model == "slow":
            time.sleep(5)
        if model == "uneven" and turn == 0 and attempts == 1:
            time.sleep(1.5)
        time.sleep(0.02)
        with lock:
            answered.setdefault(model, []).append(turn)
        if model == "stubborn" and not body["temperature"]:
            turn = 0  # the likeliest turn is always the same
        message: dict[str, Any] = {"role": "assistant"}
        if model == "caller":
            if not body.get("tools"):
                return PlainTextResponse("no tools", 400)
            message["tool_calls"] = [
                {
                    "id": f"{turn}.{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for number, (name, arguments) in enumerate(CALLS[turn])
            ]
        else:
            message["content"] = (PLAN if model == "planner" else SCRIPT)[turn]
        usage = {"prompt_tokens": 100 + turn, "completion_tokens": 5}
        return JSONResponse({"choices": [{"message": message}], "usage": usage})
    finally:
        with lock:
            load["now"] -= 1


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
