"""The notebook runs from top to bottom, with a real model and real training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from sql_env.training.config import GRPOConfig
from sql_env.training.run_log import RunLog

CHECKOUT = Path(__file__).resolve().parents[2]
NOTEBOOK = CHECKOUT / "notebooks" / "train_grpo.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_in_one_click(
    tiny_config: Callable[..., GRPOConfig],
    sft_model_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny_config(
        model_name=str(sft_model_dir),
        max_steps=2,
        evaluate_every=2,
        sft={"trl": {"max_steps": 2}},
    )
    settings = tmp_path / "tiny.json"
    settings.write_text(json.dumps(config.to_dict()), encoding="utf-8")
    monkeypatch.setenv("SQL_ENV_NOTEBOOK_CONFIG", str(settings))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(CHECKOUT)}}).execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    for line in (
        ": preset ",
        "Smoke test passed",
        "6 questions to train on, 6 held out",
        "success before: ",
        "success after SFT: ",
        "2 logged steps, reward ",
    ):
        assert line in text
    shown = [output for output in outputs if output.output_type == "display_data"]
    kinds = [kind for output in shown for kind in output.data]
    assert kinds.count("image/png") >= 5, "two live plots and three at the end"
    live = [output for output in shown if "display_id" in output.get("transient", {})]
    assert len(live) == len({output.transient["display_id"] for output in live})
    assert "before" in str(shown[-1].data)
    assert [row["step"] for row in RunLog(config.output_dir).metrics()] == [1, 2]


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
