"""All runs under a folder: as a list, and as a page that opens their reports offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from sql_env.evaluation.metrics import success_rate
from sql_env.evaluation.report import write_report
from sql_env.evaluation.run_folder import Run, RunError, find_runs, read_run
from sql_env.evaluation.statistics import Rate

INDEX, REPORT = "index.html", "report.html"
HEADINGS = ("run", "when", "policy", "questions", "how", "episodes", "success")


@dataclass(frozen=True)
class RunEntry:
    """One line of the list."""

    run: Run
    success: Rate

    @property
    def cells(self) -> tuple[str, ...]:
        """What stands under `HEADINGS`."""
        config = self.run.config
        filters = [*(config.ids or ()), *(config.databases or ()), *(config.difficulties or ())]
        questions = f"{Path(config.dataset).name} {config.split}"
        decoded = config.policy.startswith(("model:", "endpoint:"))
        how = [f"T = {config.temperature:g}"] if config.temperature else ["greedy"] * decoded
        how += [f"{config.samples} samples"] * (config.samples > 1)
        how += [config.decoding] * (config.decoding != "plain")
        how += [f"{name} {value}" for name, value in config.other.items()]
        success = f"{self.success}" if self.success.n else "-"
        return (
            self.run.name,
            config.created[:16].replace("T", " "),
            config.policy,
            f"{questions} ({', '.join(filters)})" if filters else questions,
            ", ".join(how),
            str(len(self.run.episodes)),
            success,
        )


def list_runs(folder: Path) -> list[RunEntry]:
    """Every evaluation in and under `folder`, the latest last.

    Raises:
        RunError: there is no such folder, it holds no runs, or one of them is damaged.
    """
    runs = [read_run(path) for path in find_runs(folder)]
    if not runs:
        raise RunError(f"{folder} holds no runs: `sql-env eval --out {folder}` makes some")
    runs.sort(key=lambda run: run.config.created)
    return [RunEntry(run, success_rate(run.episodes)) for run in runs]


def write_index(entries: Sequence[RunEntry], folder: Path) -> Path:
    """Write a page that lists the runs and links to a report of each, which is made if need be."""
    rows = []
    for entry in entries:
        report = entry.run.folder / REPORT
        if entry.run.episodes and not _up_to_date(report, entry.run.folder):
            write_report([entry.run], [], report)
        name, *others = (escape(cell) for cell in entry.cells)
        link = escape(report.relative_to(folder).as_posix(), quote=True)
        first = f'<a href="{link}">{name}</a>' if entry.run.episodes else name
        rows.append("".join(f"<td>{cell}</td>" for cell in (first, *others)))
    head = "".join(f"<th>{name}</th>" for name in HEADINGS)
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    path = folder / INDEX
    path.write_text(_PAGE.format(head=head, body=body), encoding="utf-8")
    return path


def _up_to_date(report: Path, run: Path) -> bool:
    written = max(path.stat().st_mtime for path in run.glob("episodes.jsonl*"))
    return report.is_file() and report.stat().st_mtime >= written


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>SQLEnv runs</title>
<style>
:root {{ color-scheme: light dark; --line: light-dark(#e2e5ea, #2c3541); }}
body {{ margin: 0 auto; padding: 28px 24px 64px; max-width: 1320px;
  font: 15px/1.5 system-ui, sans-serif;
  background: light-dark(#f6f7f9, #11151b); color: light-dark(#1b2430, #e4e9f0); }}
h1 {{ margin: 0 0 16px; font-size: 22px; }}
div {{ overflow-x: auto; padding: 14px 20px; border: 1px solid var(--line); border-radius: 10px;
  background: light-dark(#ffffff, #191f27); }}
table {{ width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th {{ padding: 0 14px 8px 0; font-size: 13px; font-weight: 500; text-align: left;
  color: light-dark(#5d6878, #98a4b5); }}
td {{ padding: 9px 14px 9px 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }}
td:nth-child(2), td:last-child {{ white-space: nowrap; }}
td:first-child, td:last-child {{ font-weight: 600; }}
td:first-child, td:nth-child(3) {{ min-width: 11em; }}
a {{ color: light-dark(#1f5fd0, #7fb0ff); }}
</style>
<main>
<h1>Runs, newest last</h1>
<div tabindex="0" role="region" aria-label="Runs"><table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>
</main>
</html>
"""
