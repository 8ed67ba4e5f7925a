"""What a set of episodes adds up to. A rate never comes without its 95 % interval."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from sql_env.agent.episodes import EpisodeResult, Step
from sql_env.evaluation.statistics import Interval, Rate, bootstrap, wilson
from sql_env.models import DIFFICULTIES


def success_rate(episodes: Iterable[EpisodeResult]) -> Rate:
    """Mean success over questions.

    Several samples of one question are not independent, so the interval counts questions, not
    episodes: with one sample the two are the same, with more it errs on the wide side.
    """
    shares = [fmean(e.correct for e in group) for group in _by_question(episodes).values()]
    return wilson(sum(shares), len(shares))


def pass_at_k(episodes: Iterable[EpisodeResult], k: int) -> float:
    """The chance that one of `k` samples succeeds, estimated without bias from all samples."""
    chances = []
    for group in _by_question(episodes).values():
        n, right = len(group), sum(e.correct for e in group)
        if n >= k:
            chances.append(1 - math.comb(n - right, k) / math.comb(n, k))
    return fmean(chances) if chances else 0.0


def _by_question(episodes: Iterable[EpisodeResult]) -> dict[str, list[EpisodeResult]]:
    groups: dict[str, list[EpisodeResult]] = defaultdict(list)
    for episode in episodes:
        groups[episode.question_id].append(episode)
    return groups


@dataclass(frozen=True)
class Summary:
    """Everything `summary.json` holds."""

    n_episodes: int  # planned
    n_played: int
    n_completed: int  # played to an end; the others broke off with an error
    success: Rate
    success_over_databases: Interval | None  # the interval by a bootstrap over databases
    failures: dict[str, int]  # the episodes that were not won, by kind
    pass_at_k: dict[str, float]
    by_difficulty: dict[str, Rate]
    by_database: dict[str, Rate]
    by_answer_type: dict[str, Rate]
    avg_reward: float
    avg_reward_parts: dict[str, float]
    avg_steps: float
    avg_turns: float  # of a model, whose turn may hold several actions
    avg_tokens: float | None  # of a whole conversation; None where nobody counted
    avg_queries: float
    sample_share: Rate  # of the episodes: SAMPLE was used
    recovery: Rate  # of the episodes whose first query failed: success all the same
    replaced: Rate  # of the turns: guided decoding drew another
    replaced_reasons: dict[str, int]
    extra_tokens: int  # that were written to replace turns, in vain too
    cut_off: int  # turns that ran into the token limit
    parse_rate: float | None  # of the model's turns; None where nothing had to be parsed
    stop_reasons: dict[str, int]
    actions: dict[str, int]
    error_kinds: dict[str, int]
    episode_errors: dict[str, int]
    environment_seconds: float
    policy_seconds: float
    environment_share: float  # of the time that both took
    tokens: dict[str, int]
    cost: float | None  # of an endpoint whose prices are known

    def to_dict(self) -> dict[str, Any]:
        """For `summary.json`; rates become objects."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Rate | Interval):
        return value._asdict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def summarize(episodes: Sequence[EpisodeResult], *, planned: int | None = None) -> Summary:
    """Count everything there is to count about `episodes`."""
    steps = [step for episode in episodes for step in episode.steps]
    parsed = [step.trace["parsed"] for step in steps if "parsed" in step.trace]
    samples = max((len(group) for group in _by_question(episodes).values()), default=1)
    environment = sum(e.environment_seconds for e in episodes)
    policy = sum(e.policy_seconds for e in episodes)
    tokens: Counter[str] = Counter()
    for step in steps:
        tokens.update({k: step.trace[k] for k in _TOKEN_COUNTS if k in step.trace})
    stumbled = [e for e in episodes if first_query_failed(e)]
    replaced = [step.trace["replaced"] for step in steps if "replaced" in step.trace]
    costs = [step.trace["cost"] for step in steps if "cost" in step.trace]
    lengths = [length for e in episodes if (length := _tokens_of(e))]
    parts = {
        part: _mean(sum(getattr(step, part) for step in e.steps) for e in episodes)
        for part in ("operational", "progress", "terminal")
    }
    return Summary(
        n_episodes=len(episodes) if planned is None else planned,
        n_played=len(episodes),
        n_completed=sum(not e.error for e in episodes),
        success=success_rate(episodes),
        success_over_databases=bootstrap((e.database, float(e.correct)) for e in episodes),
        failures=_counts(failure_kind(e) for e in episodes if not e.correct),
        pass_at_k={str(k): pass_at_k(episodes, k) for k in range(1, samples + 1)},
        by_difficulty=_rates(episodes, lambda e: e.difficulty, DIFFICULTIES),
        by_database=_rates(episodes, lambda e: e.database),
        by_answer_type=_rates(episodes, lambda e: e.answer_type),
        avg_reward=_mean(e.reward for e in episodes),
        avg_reward_parts=parts,
        avg_steps=_mean(len(e.steps) for e in episodes),
        avg_turns=_mean(_turns_of(e) for e in episodes),
        avg_tokens=fmean(lengths) if lengths else None,
        avg_queries=_mean(
            sum(_is(step.action_type, "QUERY") for step in e.steps) for e in episodes
        ),
        sample_share=wilson(
            sum(any(_is(step.action_type, "SAMPLE") for step in e.steps) for e in episodes),
            len(episodes),
        ),
        recovery=wilson(sum(e.correct for e in stumbled), len(stumbled)),
        replaced=wilson(len(replaced), len(steps)),
        replaced_reasons=_counts(_kind_of_reason(item["reason"]) for item in replaced),
        extra_tokens=sum(
            step.trace[drawn]["extra_tokens"]
            for step in steps
            for drawn in ("replaced", "kept")
            if drawn in step.trace
        ),
        cut_off=sum("cut_off" in step.trace for step in steps),
        parse_rate=fmean(parsed) if parsed else None,
        stop_reasons=_counts(e.stop_reason for e in episodes),
        actions=_counts(step.action_type.strip().upper() for step in steps),
        error_kinds=_counts(step.error_kind or "action" for step in steps if step.error),
        episode_errors=_counts(e.error for e in episodes if e.error),
        environment_seconds=environment,
        policy_seconds=policy,
        environment_share=environment / (environment + policy) if episodes else 0.0,
        tokens=dict(tokens),
        cost=math.fsum(costs) if costs else None,
    )


_TOKEN_COUNTS = ("prompt_tokens", "completion_tokens")


def _turns_of(episode: EpisodeResult) -> int:
    turns = [step.trace.get("turn", number) for number, step in enumerate(episode.steps, start=1)]
    return max(turns, default=0)


def _tokens_of(episode: EpisodeResult) -> int:
    """What the model had read and written when the episode ended."""
    for step in reversed(episode.steps):
        if "completion_tokens" in step.trace:
            return sum(step.trace.get(name, 0) for name in _TOKEN_COUNTS)
    return 0


def first_query_failed(episode: EpisodeResult) -> bool:
    """The first QUERY ended in an error, or found nothing although there is something to find."""
    step = _first_query(episode)
    if step is None:
        return False
    return bool(step.error) or (step.rows == 0 and episode.gold_answer != [])


def failure_kind(episode: EpisodeResult) -> str:
    """How an episode was lost: its end, and what became of its last query."""
    if episode.error:
        return "broke off"
    end = "wrong answer" if episode.stop_reason == "wrong_answer" else "no answer"
    if end == "no answer" and _last_turn_cut_off(episode):
        return f"{end}: last turn cut off"
    queries = [step for step in episode.steps if _is(step.action_type, "QUERY")]
    if not queries:
        return f"{end}: no query"
    if queries[-1].error:
        return f"{end}: last query failed"
    if queries[-1].rows == 0:
        return f"{end}: last query found nothing"
    return f"{end}: last query returned rows"


def _last_turn_cut_off(episode: EpisodeResult) -> bool:
    """It ran into the token limit; a model that still thinks there has said nothing."""
    turns = (step.trace for step in reversed(episode.steps) if "raw" in step.trace)
    return "cut_off" in next(turns, ())


def _kind_of_reason(reason: str) -> str:
    """Why guided decoding replaced a turn, without the names and words that it was about."""
    kinds = ("repeated", "no such table", "no such column", "no such function")
    return next((kind for kind in kinds if reason.startswith(kind)), "syntax error")


def _first_query(episode: EpisodeResult) -> Step | None:
    return next((step for step in episode.steps if _is(step.action_type, "QUERY")), None)


def _is(action_type: str, kind: str) -> bool:
    return action_type.strip().upper() == kind


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return fmean(numbers) if numbers else 0.0


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _rates(
    episodes: Iterable[EpisodeResult],
    group_of: Callable[[EpisodeResult], str],
    order: Sequence[str] = (),
) -> dict[str, Rate]:
    groups: dict[str, list[EpisodeResult]] = defaultdict(list)
    for episode in episodes:
        groups[group_of(episode)].append(episode)
    names = sorted(groups, key=lambda name: (order.index(name) if name in order else 99, name))
    return {name: success_rate(groups[name]) for name in names}
