"""`sql-env eval`, `sql-env compare`, `sql-env report`: how good is a policy, and can I see why?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sql_env.agent.choice import POLICY_HELP, Decoding, PolicyChoiceError, parse_body
from sql_env.agent.prompts import Actions, PromptVersion
from sql_env.commands.old_names import OldRedraws

EMBEDDED = "embedded"
# `sql-env eval --help` has a frame for each.
_QUESTIONS, _MODEL, _ENDPOINT, _RUN = (
    {"rich_help_panel": name} for name in ("Questions", "Models", "Endpoints", "The run")
)


DecodingOption = Annotated[
    Decoding,
    typer.Option(
        help="guided resamples bad turns.",
        **_MODEL,
    ),
]


PromptOption = Annotated[
    PromptVersion | None,
    typer.Option(
        help="One action a turn, or several. Default: as trained, else v2.",
        **_MODEL,
    ),
]
ActionsOption = Annotated[
    Actions | None,
    typer.Option(
        help="Default: as trained, else text.",
        **_MODEL,
    ),
]
BaseOption = Annotated[
    str | None,
    typer.Option(help="An adapter's base: a folder, a GGUF file or a hub id.", **_MODEL),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command("eval")(evaluate_command)
    app.command("compare")(compare_command)
    app.command("report")(report_command)
    app.command("runs")(runs_command)


def evaluate_command(
    context: typer.Context,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help=f"Who plays; repeatable. {POLICY_HELP}.")
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(help="A dataset folder; default: the embedded data.", **_QUESTIONS),
    ] = None,
    split: Annotated[str, typer.Option(help="Which questions of it.", **_QUESTIONS)] = "eval",
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="Only this question; repeatable.", **_QUESTIONS)
    ] = None,
    databases: Annotated[
        list[str] | None,
        typer.Option("--database", help="Only about this database; repeatable.", **_QUESTIONS),
    ] = None,
    difficulties: Annotated[
        list[str] | None,
        typer.Option("--difficulty", help="Only of this difficulty; repeatable.", **_QUESTIONS),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="At most N, drawn with the seed.", **_QUESTIONS),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same episodes.", **_QUESTIONS)] = 0,
    samples: Annotated[
        int,
        typer.Option(min=1, help="How many times each question is played (pass@k).", **_QUESTIONS),
    ] = 1,
    step_budget: Annotated[int, typer.Option(min=1, help="Steps per episode.", **_QUESTIONS)] = 15,
    no_last: Annotated[
        bool,
        typer.Option(
            "--no-last", help="No ANSWER: @last; answers must be typed out.", **_QUESTIONS
        ),
    ] = False,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.", **_MODEL)] = 0.0,
    top_p: Annotated[
        float,
        typer.Option(min=0.01, max=1, help="Sample from the top tokens of this share.", **_MODEL),
    ] = 1.0,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Longest model turn, thoughts included.", **_MODEL)
    ] = 256,
    prompt: PromptOption = None,
    actions: ActionsOption = None,
    decoding: DecodingOption = "plain",
    redraws: OldRedraws = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Episodes a model plays together; default: 128 (CPU: 32).", **_MODEL
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, …; default: the GPU if there is one.", **_MODEL)
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(
            help="auto: the checkpoint's (CPU: float32).",
            **_MODEL,
        ),
    ] = "auto",
    base: BaseOption = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Episodes, and so requests, at once.", **_ENDPOINT)
    ] = 16,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to wait for one response.", **_ENDPOINT)
    ] = 120.0,
    retries: Annotated[
        int, typer.Option(min=0, help="How often a request is tried again.", **_ENDPOINT)
    ] = 5,
    body: Annotated[
        list[str] | None,
        typer.Option(
            help="key=JSON for every request; null leaves it out. Repeatable.",
            **_ENDPOINT,
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(help="Price of a million tokens: IN:OUT.", **_ENDPOINT),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes (1; models play in one), or on Ray (all).", **_RUN),
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Play on a cluster: ray, or ray://HOST:PORT.", **_RUN)
    ] = None,
    out: Annotated[Path, typer.Option(help="Where runs are kept.", **_RUN)] = Path("runs"),
    name: Annotated[
        str | None, typer.Option(help="Folder of the run; default: time and policy.", **_RUN)
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A run to finish: plays only what is missing.", **_RUN)
    ] = None,
    other_code: Annotated[
        bool,
        typer.Option("--other-code", help="Resume although code or libraries changed.", **_RUN),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Summaries as JSON.", **_RUN)] = False,
) -> None:
    """Play policies over a set of questions and keep every episode."""
    from sql_env.commands.evaluation_display import LiveTable, show_runs
    from sql_env.commands.evaluation_run import Means, play_run, resume_run
    from sql_env.evaluation.run_folder import RunConfig, RunError, read_run

    means = Means(workers, concurrency, timeout, retries, on)
    if resume is not None:
        _check_resumed_alone(context)
        earlier = read_run(resume)
        with LiveTable([earlier.config.policy]) as table:
            runs = [resume_run(earlier, other_code, means, table.next_line())]
    elif not policy:
        raise PolicyChoiceError(f"name a --policy: {POLICY_HELP}")
    elif name and len(policy) > 1:
        raise RunError(f"--name {name} is for one run: name one --policy, not {len(policy)}")
    elif (body or price) and not any(one.startswith("endpoint:") for one in policy):
        option = "--body" if body else "--price"
        raise PolicyChoiceError(f"{option} is for endpoints: name one with --policy endpoint:…")
    else:
        config = RunConfig(
            policy=policy[0],
            dataset=EMBEDDED if dataset is None else str(dataset.resolve()),
            split=split,
            ids=ids or None,
            databases=databases or None,
            difficulties=difficulties or None,
            n_questions=limit,
            seed=seed,
            samples=samples,
            step_budget=step_budget,
            allow_last=not no_last,
            base=base,
            prompt=prompt,
            actions=actions,
            temperature=temperature,
            top_p=top_p,
            body=parse_body(body or ()),
            price=price,
            decoding=decoding,
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            device=device,
            dtype=dtype,
        )
        runs = []
        with LiveTable(policy) as table:
            for choice in policy:
                chosen = replace(config, policy=choice)
                runs.append(play_run(chosen, out, name, means, table.next_line()))
                if runs[-1].result.interrupted:
                    break
    if as_json:
        typer.echo(json.dumps([run.to_dict() for run in runs], indent=2, ensure_ascii=False))
    else:
        show_runs(runs)
    if any(run.result.interrupted for run in runs):
        raise typer.Exit(130)
    if any(run.result.n_completed == 0 for run in runs):
        raise typer.Exit(1)


# What may stand beside --resume: it does not change what is played.
_MEANS = ("workers", "on", "concurrency", "timeout", "retries")
_BESIDE_RESUME = ("resume", "other_code", "as_json", *_MEANS)


def _check_resumed_alone(context: typer.Context) -> None:
    """A resumed run has its settings; to play with others is another run."""
    from sql_env.evaluation.run_folder import RunError

    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        if given and option.name not in _BESIDE_RESUME:
            raise RunError(
                f"--resume takes its settings from the run: leave {option.opts[0]} out, or start "
                "a new run"
            )


def compare_command(
    before: Annotated[Path, typer.Argument(help="A run folder.")],
    after: Annotated[Path, typer.Argument(help="A run folder over the same questions.")],
    as_json: Annotated[bool, typer.Option("--json", help="The comparison as JSON.")] = False,
) -> None:
    """Compare two runs over the same questions, in pairs."""
    from sql_env.commands.evaluation_display import show_comparison
    from sql_env.evaluation.comparison import compare
    from sql_env.evaluation.run_folder import differences, read_run

    old, new = read_run(before), read_run(after)
    comparison = compare(old.episodes, new.episodes)
    if as_json:
        found = {"differences": differences(old.config, new.config), **comparison.to_dict()}
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show_comparison(old, new, comparison)


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders, the earliest first; training runs add their curve."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Default: report.html in the last run.")
    ] = None,
) -> None:
    """Write one HTML file that opens offline: numbers, charts, every episode."""
    from sql_env.evaluation.report import write_report
    from sql_env.evaluation.run_folder import is_training_run, read_run

    trainings = [run for run in runs if is_training_run(run)]
    evaluations = [read_run(run) for run in runs if run not in trainings]
    path = write_report(evaluations, trainings, out or runs[-1] / "report.html")
    typer.echo(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


def runs_command(
    folder: Annotated[Path, typer.Argument(help="Where runs are kept.")] = Path("runs"),
    html: Annotated[
        bool, typer.Option("--html", help="Write a page that opens every run: FOLDER/index.html.")
    ] = False,
) -> None:
    """List the evaluations in a folder, newest last."""
    from sql_env.commands.evaluation_display import show_run_list
    from sql_env.evaluation.run_index import list_runs, write_index

    entries = list_runs(folder)
    if html:
        typer.echo(write_index(entries, folder))
    else:
        show_run_list(entries)
