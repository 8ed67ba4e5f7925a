"""Whole episodes for a batch of prompts."""

from __future__ import annotations

from sql_env.training.parsing import parse_model_output

__all__ = ["parse_model_output"]
