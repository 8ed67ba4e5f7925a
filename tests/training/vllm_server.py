"""A stand-in for `vllm serve`: its protocol as TRL speaks it, over a transformers model on a CPU.

Real: HTTP, the routes and fields that TRL's client uses, a model that samples, and weights that
arrive tensor by tensor while `/update_weights` waits for them. Not real: vLLM's engine, and NCCL:
the weights come over gloo (see `vllm_on_cpu.py`, the other end).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist


class Answered(NamedTuple):
    """A prompt, what was sampled for it, and how many weight updates had arrived before."""

    prompt: list[int]
    completion: list[int]
    updates: int


class ServedModel:
    """A model that samples and takes weights by name."""

    def __init__(self, folder: Path | str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def sample(
        self, prompts: list[list[int]], options: dict[str, Any]
    ) -> list[tuple[list[int], list[float]]]:
        """Token ids with their log-probabilities after temperature (`processed_logprobs`)."""
        ends = {self.model.generation_config.eos_token_id, *options.get("stop_token_ids", [])}
        return [self._one(prompt, options, ends) for prompt in prompts]

    @torch.no_grad()
    def _one(
        self, prompt: list[int], options: dict[str, Any], ends: set[int]
    ) -> tuple[list[int], list[float]]:
        out = self.model.generate(
            input_ids=torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=options["max_tokens"],
            do_sample=True,
            temperature=options["temperature"],
            top_p=options["top_p"],
            top_k=options["top_k"],
            eos_token_id=sorted(end for end in ends if end is not None),
            pad_token_id=0,
            output_scores=True,
            return_dict_in_generate=True,
        )
        ids = out.sequences[0, len(prompt) :]
        scores = torch.cat(out.scores).log_softmax(-1)
        return ids.tolist(), scores.gather(1, ids[:, None])[:, 0].tolist()

    def load(self, name: str, weights: torch.Tensor) -> None:
        """As vLLM's workers do: an unknown name is an error."""
        own = dict(self.model.named_parameters())[name]
        own.data.copy_(weights)


class StandInServer(ThreadingHTTPServer):
    """Serves one model.

    Attributes:
        answered: everything that was sampled.
        updates: how often all weights arrived.
        requests: the paths that were asked for.
    """

    def __init__(self, folder: Path | str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.served = ServedModel(folder)
        self.answered: list[Answered] = []
        self.requests: list[str] = []
        self.updates = 0
        self._group: dist.ProcessGroupGloo | None = None
        self._updating = False
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def completions(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert not self._updating, "asked to sample while weights were on their way"
        assert asked["n"] == 1 and asked["return_token_ids"] and asked["logprobs"] == 0
        choices = []
        for prompt in asked["prompt"]:
            [(ids, logprobs)] = self.served.sample([prompt], asked)
            self.answered.append(Answered(prompt, ids, self.updates))
            tokens = [f"token_id:{token}" for token in ids]
            table = {
                "tokens": tokens,
                "token_logprobs": logprobs,
                "top_logprobs": [{t: p} for t, p in zip(tokens, logprobs, strict=True)],
            }
            choices.append({"prompt_token_ids": prompt, "token_ids": ids, "logprobs": table})
        return {"choices": choices}

    def join_group(self, init_info: dict[str, Any]) -> dict[str, Any]:
        store = dist.TCPStore(
            init_info["master_address"],
            init_info["master_port"],
            init_info["world_size"],
            is_master=False,
        )
        rank, size = init_info["rank_offset"], init_info["world_size"]
        self._group = dist.ProcessGroupGloo(store, rank, size, timedelta(seconds=60))
        return {}

    def update(self, info: dict[str, Any]) -> dict[str, Any]:
        assert self._updating and self._group is not None
        for name, dtype, shape in zip(
            info["names"], info["dtype_names"], info["shapes"], strict=True
        ):
            weights = torch.empty(shape, dtype=getattr(torch, dtype))
            self._group.broadcast([weights], dist.BroadcastOptions()).wait()
            self.served.load(name, weights)
        return {}

    def start_update(self, _: dict[str, Any]) -> dict[str, Any]:
        self._updating = True
        return {}

    def finish_update(self, _: dict[str, Any]) -> dict[str, Any]:
        self._updating = False
        self.updates += 1
        return {}


class _Handler(BaseHTTPRequestHandler):
    server: StandInServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        config = {
            "weight_transfer_config": {"backend": "nccl"},
            "model_config": {"logprobs_mode": "processed_logprobs"},
        }
        answers: dict[str, Any] = {
            "/health": {},
            "/v1/models": {"data": [{"id": "stand-in"}]},
            "/server_info": {"vllm_config": config},
            "/get_world_size": {"world_size": 1},
        }
        self._answer(answers.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = json.loads(body) if body else {}
        server = self.server
        actions = {
            "/v1/completions": server.completions,
            "/init_weight_transfer_engine": lambda asked: server.join_group(asked["init_info"]),
            "/start_weight_update": server.start_update,
            "/update_weights": lambda asked: server.update(asked["update_info"]),
            "/finish_weight_update": server.finish_update,
            "/reset_prefix_cache": lambda _: {"success": True},
        }
        action = actions.get(self.path)
        with server.lock:
            server.requests.append(self.path)
            self._answer(action(asked) if action else None)

    def _answer(self, values: dict[str, Any] | None) -> None:
        body = json.dumps(values or {}).encode()
        self.send_response(200 if values is not None else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(folder: Path | str) -> Iterator[StandInServer]:
    """A server in a thread."""
    with StandInServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
