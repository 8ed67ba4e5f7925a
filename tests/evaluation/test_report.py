"""The report: one file, safe whatever the data holds. Browser tests drive headless Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import make_step

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.report import render_report, shorten, write_report
from sql_env.evaluation.run_folder import Run, RunConfig, RunError
from sql_env.evaluation.statistics import wilson

Maker = Callable[..., EpisodeResult]

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "'; window.hacked=1; '",
    "<!--<script>",
    "{{data}} {{script}} ${window.hacked=1} \u2028 \0 \ud800",
)


def config(policy: str) -> RunConfig:
    return RunConfig(
        policy=policy,
        dataset="/somewhere/music",
        split="eval",
        n_questions=None,
        seed=0,
        samples=1,
        step_budget=15,
        allow_last=True,
    )


@pytest.fixture
def runs(tmp_path: Path, make_episode: Maker) -> list[Run]:
    """Two runs over twelve questions: q2 and q3 are won, q4 is lost."""
    outcomes = {"before": {0, 1, 4}, "after": {0, 1, 2, 3}}
    found = []
    for name, right in outcomes.items():
        folder = tmp_path / name
        folder.mkdir()
        episodes = [
            make_episode(
                f"q{number}",
                correct=number in right,
                difficulty=("easy", "medium", "hard")[number % 3],
                database=("music", "zoo")[number % 2],
                verdict="the rows match" if number in right else "the value differs",
                steps=(
                    make_step("DESCRIBE", "Singer", result="Singer (4 rows)", operational=0.02),
                    make_step(
                        "QUERY",
                        f"SELECT {number} FROM {name}",
                        result="name | age\nAnn | 30\nBob | 41",
                        progress=0.15,
                        trace={"raw": f"Let me see. QUERY: SELECT {number}", "parsed": True},
                    ),
                    make_step("QUERY", "SELEC", error="near SELEC: syntax error"),
                    make_step("ANSWER", "4", terminal=float(number in right)),
                ),
            )
            for number in range(12)
        ]
        found.append(Run(folder, config(f"model:{name}"), tuple(episodes)))
    return found


@pytest.fixture
def guided(runs: list[Run]) -> Run:
    """A run whose first turn guided decoding replaced."""
    noted = {"original": "QUERY: SELECT age FROM pets", "reason": "no such table: pets"}
    step = make_step(
        "QUERY", "SELECT 1", trace={"raw": "x", "replaced": {**noted, "extra_tokens": 17}}
    )
    first, *others = runs[1].episodes
    episode = replace(first, steps=(step, *first.steps))
    return Run(runs[1].folder, runs[1].config, (episode, *others))


def embedded(page: str) -> Any:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match[1])


def hostile(run: Run) -> Run:
    """The run with every text replaced by something that wants to be markup."""
    text = "\n".join(HOSTILE)
    episodes = tuple(
        replace(
            episode,
            question=text,
            database=text,
            verdict=text,
            error=text if number == 0 else "",
            stop_reason=text if number == 1 else episode.stop_reason,
            gold_sql=text,
            gold_answer=text,
            steps=(
                make_step(text, text, result=text, error=text, trace={"raw": text}),
                make_step("QUERY", text, result=f"{HOSTILE[0]} | {HOSTILE[1]}\n1 | {HOSTILE[2]}"),
                make_step("ANSWER", text, result=text),
            ),
        )
        for number, episode in enumerate(run.episodes)
    )
    return Run(run.folder / HOSTILE[1].replace("/", ""), config(text), episodes)


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """A training run that played the same ten questions three times on its way."""
    folder = tmp_path / "grpo"
    folder.mkdir()
    rows = [
        {"step": step, "eval": wilson(right, 10)._asdict()}
        for step, right in ((0, 2), (10, 5), (20, 9))
    ]
    (folder / "success.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


class TestReplacedTurns:
    """What guided decoding played instead of what the model wrote."""

    def test_the_data_has_original_reason_and_cost(self, guided: Run) -> None:
        (run,) = embedded(render_report([guided]))["runs"]
        assert run["episodes"]["q0"][0]["steps"][0]["replaced"] == {
            "original": "QUERY: SELECT age FROM pets",
            "reason": "no such table: pets",
            "extra_tokens": 17,
        }
        assert run["summary"]["extra_tokens"] == 17
        assert run["summary"]["replaced_reasons"] == {"no such table": 1}

    def test_long_originals_are_cut_like_other_texts(self, guided: Run) -> None:
        (run,) = embedded(render_report([guided], text_length=5))["runs"]
        original = run["episodes"]["q0"][0]["steps"][0]["replaced"]["original"]
        assert original.startswith("QUERY… (27 characters")


class TestStages:
    """Runs of one training in order, and how its success grew."""

    def test_the_data_has_the_success_on_the_way(self, runs: list[Run], training: Path) -> None:
        (curve,) = embedded(render_report(runs, [training]))["success"]
        assert curve["name"] == "grpo, eval"
        assert [(row["step"], row["rate"], row["n"]) for row in curve["points"]] == [
            (0, 0.2, 10),
            (10, 0.5, 10),
            (20, 0.9, 10),
        ]
        assert all(row["low"] < row["rate"] < row["high"] for row in curve["points"])

    @pytest.mark.browser
    def test_the_page_draws_it_and_says_what_each_stage_added(
        self, browser: Any, runs: list[Run], training: Path, tmp_path: Path
    ) -> None:
        before, after = runs
        nothing = [replace(episode, correct=False) for episode in before.episodes]
        first = Run(tmp_path / "untrained", config("model:untrained"), tuple(nothing))
        opened = Opened(browser, [first, before, after], tmp_path, [training])
        page = opened.page
        drawn = page.locator("svg[aria-label='Success during training']")
        assert drawn.locator("circle").count() == 3
        heights = [float(dot.get_attribute("cy")) for dot in drawn.locator("circle").all()]
        assert heights == sorted(heights, reverse=True), "it rises"
        assert "step 0: 20.0 %" in drawn.locator("circle title").first.text_content()
        assert drawn.locator("polygon").count() == 1
        stages = page.locator("#stages li").all_inner_texts()
        assert len(stages) == 2
        assert "untrained → model:before" in stages[0]
        assert "3 won, 0 lost of 12" in stages[0]
        assert "2 won, 1 lost of 12" in stages[1]
        # What the last stage changed is open, at the first question that it won.
        assert "2 won, 1 lost" in page.inner_text("#sentence")
        assert "q2" in page.inner_text("#detail .tags >> nth=0")
        assert opened.problems == []
        page.close()


class TestFile:
    def test_holds_both_runs_and_their_comparison(self, runs: list[Run]) -> None:
        data = embedded(render_report(runs))
        assert [run["policy"] for run in data["runs"]] == ["model:before", "model:after"]
        assert len(data["questions"]) == 12
        (comparison,) = data["comparisons"]
        assert (comparison["won"], comparison["lost"]) == (["q2", "q3"], ["q4"])
        assert data["runs"][1]["summary"]["success"]["rate"] == pytest.approx(1 / 3)

    def test_what_several_pairs_say_of_chance_is_corrected(self, runs: list[Run]) -> None:
        before, _ = runs
        rights = (0, 6, 6)  # 6 won and none lost: p = 0.031 alone
        stages = [
            replace(
                before,
                episodes=tuple(
                    replace(episode, correct=number < right)
                    for number, episode in enumerate(before.episodes)
                ),
            )
            for right in rights
        ]
        (alone,) = embedded(render_report(stages[:2]))["comparisons"]
        assert "p = 0.0312 (more than chance)" in alone["sentence"]
        first, second, _ = embedded(render_report(stages))["comparisons"]
        assert first["sentence"].endswith("p = 0.0938 (within chance)")
        assert second["sentence"].endswith("p = 0.0938 (within chance)")
        assert first["p_value"] == 0.03125

    def test_needs_no_network(self, runs: list[Run]) -> None:
        page = render_report(runs)
        addresses = set(re.findall(r"https?://[^\"'\s]+", page))
        assert addresses == {"http://www.w3.org/2000/svg"}

    def test_hostile_texts_cannot_leave_their_script(self, runs: list[Run]) -> None:
        plain = render_report(runs)
        page = render_report([hostile(run) for run in runs])
        assert page.count("<script") == plain.count("<script")
        assert "<img" not in page
        assert embedded(page)["questions"][0]["text"] == "\n".join(HOSTILE)

    def test_huge_cells_are_cut_with_a_note(self, runs: list[Run], tmp_path: Path) -> None:
        huge = "x" * 1_000_000
        episodes = tuple(
            replace(e, steps=(make_step("QUERY", huge, result=huge, trace={"raw": huge}),))
            for e in runs[0].episodes
        )
        path = write_report([replace(runs[0], episodes=episodes)], [], tmp_path / "r.html")
        assert path.stat().st_size < 500_000
        assert "1,000,000 characters, the first 4,000 shown" in path.read_text()

    def test_a_report_too_large_to_open_is_cut_shorter(
        self, runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sql_env.evaluation.report.LARGEST_REPORT", 100_000)
        long = "y" * 5000
        episodes = tuple(
            replace(e, steps=(make_step("QUERY", long, result=long),)) for e in runs[0].episodes
        )
        path = write_report([replace(runs[0], episodes=episodes)], [], tmp_path / "r.html")
        assert "the first 1,000 shown" in path.read_text()

    def test_curves_of_trainings(self, runs: list[Run], tmp_path: Path) -> None:
        training = tmp_path / "grpo"
        training.mkdir()
        rows = [{"step": n, "loss": n, "phase": "sft" if n < 3 else "grpo"} for n in range(6)]
        (training / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        curves = embedded(render_report(runs, [training]))["curves"]
        assert [curve["name"] for curve in curves] == ["grpo, sft", "grpo, grpo"]
        assert [len(curve["points"]) for curve in curves] == [3, 3]

    def test_a_training_of_one_phase_has_its_folders_name(
        self, runs: list[Run], tmp_path: Path
    ) -> None:
        (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 1, "phase": "sft"}\n')
        (curve,) = embedded(render_report(runs, [tmp_path]))["curves"]
        assert curve["name"] == tmp_path.name

    def test_runs_without_episodes_are_refused(self, runs: list[Run], tmp_path: Path) -> None:
        with pytest.raises(RunError, match="no episodes"):
            write_report([replace(runs[0], episodes=())], [], tmp_path / "r.html")

    def test_more_runs_than_fit_are_refused(self, runs: list[Run], tmp_path: Path) -> None:
        with pytest.raises(RunError, match="9 runs do not fit"):
            write_report([runs[0]] * 9, [], tmp_path / "r.html")

    def test_a_long_text_says_how_long_it_was(self) -> None:
        assert shorten("abc", 3) == "abc"
        assert shorten("abcd", 3) == "abc… (4 characters, the first 3 shown)"


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A report in a page, with everything the page complained about or asked the network for."""

    def __init__(
        self,
        browser: Any,
        runs: list[Run],
        folder: Path,
        trainings: Sequence[Path] = (),
        **options: Any,
    ) -> None:
        path = write_report(runs, trainings, folder / "report.html")
        self.page = browser.new_page(**options)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def listed(self) -> list[str]:
        ids: list[str] = self.page.eval_on_selector_all(
            "#list button", "buttons => buttons.map((button) => button.dataset.id)"
        )
        return ids


@pytest.mark.browser
class TestPage:
    @pytest.fixture
    def opened(self, browser: Any, runs: list[Run], tmp_path: Path) -> Iterator[Opened]:
        opened = Opened(browser, runs, tmp_path)
        yield opened
        opened.page.close()

    def test_renders_without_complaint_and_without_network(self, opened: Opened) -> None:
        page = opened.page
        assert opened.problems == []
        assert len(opened.requests) == 1
        assert page.locator("#headline tbody tr").count() == 2
        assert "33.3 %" in page.inner_text("#headline")
        assert "13.8 % to 60.9 %" in page.inner_text("#headline")
        assert page.locator("#charts svg").count() == 4
        assert "2 won, 1 lost of 12" in page.inner_text("#sentence")
        assert len(opened.listed()) == 12

    def test_shows_both_sides_of_an_episode(self, opened: Opened) -> None:
        opened.page.click('[data-id="q2"]')
        sides = opened.page.locator("#detail .side")
        assert sides.count() == 2
        before, after = sides.nth(0).inner_text(), sides.nth(1).inner_text()
        assert "SELECT 2 FROM before" in before
        assert "SELECT 2 FROM after" in after
        assert "wrong answer" in before
        assert "the rows match" in after
        assert "operational +0.02" in before
        assert "progress +0.15" in before
        assert "terminal +1.00" in after
        assert "near SELEC: syntax error" in before
        assert sides.nth(0).locator("pre", has_text="Ann | 30\nBob | 41").count() == 1

    def test_shows_the_turn_that_was_replaced_and_why(
        self, browser: Any, guided: Run, tmp_path: Path
    ) -> None:
        opened = Opened(browser, [guided], tmp_path)
        opened.page.click('[data-id="q0"]')
        note = opened.page.locator("#detail .replaced")
        assert note.count() == 1
        assert "no such table: pets, 17 extra tokens" in note.inner_text()
        note.locator("summary").click()
        assert "QUERY: SELECT age FROM pets" in note.inner_text()
        assert "17 tokens" in opened.page.inner_text("#headline")
        assert opened.problems == []
        opened.page.close()

    def test_names_the_settings_in_which_two_runs_differ(
        self, browser: Any, runs: list[Run], tmp_path: Path
    ) -> None:
        before, after = runs
        warmer = replace(after.config, temperature=0.7, other={"redraws": 8})
        pair = [before, Run(after.folder, warmer, after.episodes)]
        opened = Opened(browser, pair, tmp_path)
        shown = opened.page.inner_text("#changes")
        assert "temperature 0 → 0.7" in shown
        assert re.search(r"redraws . → 8", shown)
        opened.page.close()

    @pytest.mark.parametrize(
        ("outcome", "expected"),
        [
            ("won", ["q2", "q3"]),
            ("lost", ["q4"]),
            ("both_right", ["q0", "q1"]),
            ("both_wrong", ["q5", "q6", "q7", "q8", "q9", "q10", "q11"]),
        ],
    )
    def test_an_outcome_filters_the_list(
        self, opened: Opened, outcome: str, expected: list[str]
    ) -> None:
        opened.page.select_option("#filter-outcome", outcome)
        assert opened.listed() == expected
        assert f"{len(expected)} of 12" in opened.page.inner_text("#count")

    def test_the_bar_of_changes_filters_too(self, opened: Opened) -> None:
        opened.page.click(".flow .lost")
        assert opened.listed() == ["q4"]
        assert opened.page.input_value("#filter-outcome") == "lost"

    def test_filters_are_all_to_be_met(self, opened: Opened) -> None:
        opened.page.select_option("#filter-difficulty", "hard")
        assert opened.listed() == ["q2", "q5", "q8", "q11"]
        opened.page.select_option("#filter-database", "zoo")
        assert opened.listed() == ["q5", "q11"]
        opened.page.fill("#filter-search", "select 11 AFTER")
        assert opened.listed() == ["q11"]
        opened.page.fill("#filter-search", "no such words")
        assert opened.listed() == []
        assert "No question matches" in opened.page.inner_text("#detail")

    def test_arrow_keys_walk_through_the_list(self, opened: Opened) -> None:
        opened.page.focus('[data-id="q0"]')
        opened.page.keyboard.press("ArrowDown")
        assert "What about q1?" in opened.page.inner_text("#detail")

    def test_the_theme_changes_the_colours(self, opened: Opened) -> None:
        background = "getComputedStyle(document.body).backgroundColor"
        light = opened.page.evaluate(background)
        opened.page.click("#theme")
        assert opened.page.evaluate(background) != light

    def test_fits_a_phone(self, browser: Any, runs: list[Run], tmp_path: Path) -> None:
        opened = Opened(browser, runs, tmp_path, viewport={"width": 390, "height": 800})
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
        opened.page.close()

    def test_one_run_alone_has_no_changes_to_show(
        self, browser: Any, runs: list[Run], tmp_path: Path
    ) -> None:
        opened = Opened(browser, runs[:1], tmp_path)
        assert opened.problems == []
        assert not opened.page.is_visible("#changes")
        opened.page.select_option("#filter-outcome", "wrong_answer")
        assert len(opened.listed()) == 9
        opened.page.close()

    def test_samples_can_be_leafed_through(
        self, browser: Any, runs: list[Run], make_episode: Maker, tmp_path: Path
    ) -> None:
        episodes = tuple(
            make_episode("q", correct=sample == 2, sample=sample) for sample in range(3)
        )
        opened = Opened(browser, [replace(runs[0], episodes=episodes)], tmp_path)
        assert "pass@3" in opened.page.inner_text("#headline")
        assert "wrong answer" in opened.page.inner_text("#detail .side")
        opened.page.click("#detail .samples button:nth-child(3)")
        assert "correct" in opened.page.inner_text("#detail .side .tags")
        opened.page.close()

    def test_nothing_hostile_escapes(self, browser: Any, runs: list[Run], tmp_path: Path) -> None:
        opened = Opened(browser, [hostile(run) for run in runs], tmp_path)
        page = opened.page
        for question in opened.listed():
            page.evaluate("(id) => open(id)", question)
            page.eval_on_selector_all("details", "all => all.forEach((one) => one.open = true)")
        assert opened.problems == []
        assert len(opened.requests) == 1
        assert page.evaluate("window.hacked") is None
        assert page.locator("img").count() == 0
        assert page.locator("svg[onload]").count() == 0
        assert page.locator("script").count() == 2
        assert HOSTILE[0] in page.inner_text("#detail .ask")
        page.close()

    def test_an_injected_script_would_not_run(
        self, browser: Any, runs: list[Run], tmp_path: Path
    ) -> None:
        path = write_report(runs, [], tmp_path / "report.html")
        page_text = path.read_text()
        path.write_text(page_text.replace("<main>", "<main><script>window.hacked=1</script>"))
        page = browser.new_page()
        page.goto(path.as_uri())
        assert page.evaluate("window.hacked") is None
        assert page.locator("#list button").count() == 12
        page.close()
