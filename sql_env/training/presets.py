"""Settings that fit a kind of machine. Everything not named keeps `GRPOConfig`'s default."""

from __future__ import annotations

from typing import Any

from sql_env.models import DIFFICULTIES

PRESETS: dict[str, dict[str, Any]] = {
    # A free Colab GPU: 15 GB and, on a T4, no bf16.
    "colab": {
        "model_name": "Qwen/Qwen3-0.6B",
        "num_generations": 8,
        "step_budget": 10,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": 16,
        "max_new_tokens": 128,
        "max_context_tokens": 2048,
        "learning_rate": 2e-5,
        "lora": {"r": 32, "alpha": 64},
        # Kept for the backward pass, a token of this model takes 2.2 MB, and 8 x 1,500 do not fit.
        "trl": {"gradient_checkpointing": True},
        "sft": {"trl": {"gradient_checkpointing": True}},
    },
    # Two cores and patience: a model that needs no hub, short turns, few episodes.
    "cpu": {
        "model_name": "smollm2-135m",
        "prompt": "v1",
        "device": "cpu",
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_new_tokens": 64,
        "max_context_tokens": 1536,
        "step_budget": 8,
        "learning_rate": 1e-5,
        "max_steps": 50,
        "logging_steps": 1,
        "save_steps": 10,
    },
    # One data-centre GPU: 32 questions x 8 episodes a step, none of which SFT has shown.
    "gpu": {
        "model_name": "smollm2-135m",
        "prompt": "v1",
        "train_split": "rl+rl_renamed+rl_core*7",
        "num_generations": 8,
        "per_device_train_batch_size": 32,
        "gradient_accumulation_steps": 8,
        "step_budget": 15,
        "max_new_tokens": 128,
        "max_context_tokens": 1536,
        "end_on_repeat": True,
        "learning_rate": 3e-5,
        "trl": {"scale_rewards": "none"},
        "difficulty_filter": [*DIFFICULTIES],
        "compile_layers": True,
        "max_steps": 75,
        "logging_steps": 1,
        "save_steps": 5,
        "evaluate_every": 30,
        "evaluate_episodes": 32,
        "sft": {
            "first": True,
            "trl": {"save_steps": 400},
            "split": "train*4+wide+worlds+synthetic+synthetic_wide+renamed",
            "num_train_epochs": 1.25,
            "dagger_epochs": 0.4,
            "dagger_split": "dagger+dagger_renamed",
            "dagger_questions": 2560,
            "dagger_weight": 3,
            "learning_rate": 5e-4,
            "per_device_train_batch_size": 32,
            "mix": {
                "describe_tables": 8,
                "extra_table": 0.0,
                "list_values": 1.0,
                "sample": 0.1,
                "corrupt": 0.35,
                "typed_answer": 0.2,
            },
        },
    },
    # `sql-env demo`: a model of a million weights, made on the spot, on two cores in minutes.
    "demo": {
        "model_name": "runs/demo/sft/model",
        "prompt": "v1",
        "output_dir": "runs/demo",
        "device": "cpu",
        "difficulty_filter": ["easy"],
        "step_budget": 6,
        "max_new_tokens": 48,
        "max_context_tokens": 256,
        "num_generations": 8,
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 4,
        "learning_rate": 1e-4,
        "evaluate_every": 16,
        "evaluate_episodes": 240,
        "max_steps": 80,
        "logging_steps": 1,
        "save_steps": 1000,
        "sft": {
            "num_train_epochs": 6.0,
            "learning_rate": 3e-3,
            "per_device_train_batch_size": 16,
            "mix": {"extra_table": 0.05, "sample": 0.05, "corrupt": 0.0, "typed_answer": 0.0},
        },
    },
}
