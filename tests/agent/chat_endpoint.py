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
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

app = FastAPI()
lock = threading.Lock()
seen: Counter[str] = Counter()
load = {"now": 0, "most": 0}
last_body: dict[str, Any] = {}
seeds: dict[str, list[tuple[int, int]]] = {}  # by model: turn and seed of every request
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
        "seeds": seeds,
    }


MODELS = ("actor", "caller", "new", "locked", "broken")  # the others it takes, but does not list


@app.get("/v1/models")
def models() -> dict[str, Any]:
    return {"data": [{"id": name} for name in MODELS]}


@app.post("/v1/chat/completions")
def complete(request: Request, body: dict[str, Any]) -> Response:
    model = body["model"]
    if model == "absent":
        words = f"The model `{model}` does not exist\nor you have no access to it"
        return JSONResponse({"error": {"message": words}}, 404)
    last_question = max(
        (n for n, m in enumerate(body["messages"]) if "Question:" in str(m.get("content"))),
        default=0,
    )  # an example may come before it
    told = body["messages"][last_question:]
    turn = sum(message["role"] == "assistant" for message in told)
    with lock:
        last_body.clear()
        last_body.update(body)
        seeds.setdefault(model, []).append((turn, body.get("seed")))
        seen[f"{model}/{turn}"] += 1
        attempts = seen[f"{model}/{turn}"]
        load["now"] += 1
        load["most"] = max(load["most"], load["now"])
    try:
        if model == "locked" and request.headers.get("authorization") != "Bearer secret":
            return JSONResponse({"error": "no such key"}, 401)
        if model == "busy" and attempts % 2:
            return JSONResponse({"error": "later"}, 429, headers={"Retry-After": "0.01"})
        if model in ("new", "reasoner") and "max_tokens" in body:
            words = "'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
            return JSONResponse({"error": {"message": words}}, 400)
        if model == "broken":
            return PlainTextResponse("overloaded", 503)
        if model == "nonsense":
            return PlainTextResponse("<html>hello</html>")
        if model == "overloaded" and attempts % 2:
            return JSONResponse({"error": {"message": "overloaded"}}, 529)
        if model == "moved":
            return Response(status_code=308, headers={"Location": "/v2/chat/completions"})
        if model in ("warm", "reasoner") and "temperature" in body:
            words = "Unsupported value: 'temperature' does not support 0 with this model."
            return JSONResponse({"error": {"message": words}}, 400)
        if model == "slow":
            time.sleep(5)
        if model == "trickle":  # something arrives all the time, and never the end
            return StreamingResponse(time.sleep(0.05) or b" " for _ in range(100))
        if model == "uneven" and turn == 0 and attempts == 1:
            time.sleep(1.5)
        time.sleep(0.02)
        with lock:
            answered.setdefault(model, []).append(turn)
        if model == "stubborn" and not body["temperature"]:
            turn = 0  # the likeliest turn is always the same
        message: dict[str, Any] = {"role": "assistant"}
        reason = "stop"
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
        elif model == "thinker":  # about the first turn too long, about the others not at all
            message["reasoning_content"] = "Let me think."
            message["content"] = None if turn < 2 else "ANSWER: 4"
            reason = "length" if turn < 2 else "stop"
        elif model == "garbled":
            message["tool_calls"] = ["describe"]
        elif model == "half" and turn == 0:
            message["content"] = "QUERY: SELECT '\ud83d'"
        else:
            message["content"] = (PLAN if model == "planner" else SCRIPT)[turn]
        usage = {"prompt_tokens": 100 + turn, "completion_tokens": 5, "total_tokens": 105 + turn}
        if body.get("stream"):
            return _stream(model, message, usage)
        choice = {"index": 0, "message": message, "finish_reason": reason}
        head = {"id": "1", "object": "chat.completion", "created": 0, "model": model}
        reply = json.dumps({**head, "choices": [choice], "usage": usage})  # ASCII: half characters
        return Response(reply, media_type="application/json")
    finally:
        with lock:
            load["now"] -= 1


def _stream(model: str, message: dict[str, Any], usage: dict[str, int]) -> Response:
    """The whole message in one event."""
    for number, call in enumerate(message.get("tool_calls", ())):
        call["index"] = number
    reason = "tool_calls" if "tool_calls" in message else "stop"
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": model}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**head, "choices": [], "usage": usage},
    ]
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return StreamingResponse(iter([*events, "data: [DONE]\n\n"]), media_type="text/event-stream")


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
