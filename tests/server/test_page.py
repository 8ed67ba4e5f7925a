"""The page, played in a real Chromium."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from serving import Running, start_server

from sql_env.server.settings import ServerSettings

pytestmark = pytest.mark.browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LAPTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
ATTACK = "<img src=x onerror=\"window.hacked='image'\"><script>window.hacked='script'</script>"
BREAKOUT = "</textarea></pre>'\"`]]>--><svg onload=window.hacked='svg'>{{7*7}}${7*7}\u202e"


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a server's page; at the end nothing may have gone wrong or been fetched elsewhere."""
    context = browser.new_context()
    opened: list[tuple[Running, Page, list[str]]] = []

    def open_page(server: Running, question: str = "", size: dict[str, int] = LAPTOP) -> Page:
        page = context.new_page()
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.set_default_timeout(20_000)
        trouble: list[str] = []
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
        page.on(
            "request",
            lambda request: (
                None if f"127.0.0.1:{server.port}/" in request.url else trouble.append(request.url)
            ),
        )
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        opened.append((server, page, trouble))
        page.goto(f"{server.url}/web#{question}")
        page.wait_for_selector("main[aria-busy=false] .look")
        return page

    yield open_page
    for _, _, trouble in opened:
        assert trouble == []
    context.close()


def run_query(page: Page, sql: str) -> None:
    steps = page.locator("#history li").count()
    page.fill("#editor", sql)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#history li")).to_have_count(steps + 1)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_whole_episode_to_a_correct_answer(
    music_server: Running, visit: Callable[..., Page], size: dict[str, int]
) -> None:
    page = visit(music_server, "music_french", size)
    expect(page.locator("#question")).to_have_text("Which singers come from France?")
    expect(page.locator(".table-name")).to_have_text(["Singer", "Concert", "Performance"])
    expect(page.locator("#budget-text")).to_have_text("15 of 15 left")
    expect(page.locator("#use-last")).to_be_disabled()

    page.get_by_role("button", name="describe Singer").click()
    expect(page.locator(".columns .column")).to_have_text(["Singer_ID", "Name", "Country", "Age"])
    page.get_by_role("button", name="sample Singer").click()
    expect(page.locator("#result tbody tr")).to_have_count(4)
    expect(page.locator("#result table")).to_be_in_viewport()
    expect(page.locator("#result td.null")).to_have_text(["NULL"])

    page.fill("#editor", "SELECT name FROM singer WHERE country = 'France' -- all")
    colours = page.locator("#paint .t-keyword, #paint .t-string, #paint .t-comment")
    expect(colours).to_have_text(["SELECT", "FROM", "WHERE", "'France'", "-- all"])
    page.click("#run")
    expect(page.locator("#result th")).to_have_text(["Name"])
    expect(page.locator("#result tbody tr")).to_have_count(2)
    assert page.locator("#budget").get_attribute("aria-valuenow") == "3"
    expect(page.locator("#budget i.used")).to_have_count(3)
    expect(page.locator("#gold-sql")).to_have_text("")

    page.click("#use-last")
    expect(page.locator("#verdict-title")).to_have_text("Correct, in 4 steps")
    expect(page.locator("#verdict")).to_be_in_viewport()
    expect(page.locator("#gold-sql")).to_contain_text('country = "France"')
    expect(page.locator("#gold-grid tbody tr")).to_have_count(2)
    heights = page.eval_on_selector_all(
        "#chart .slot:nth-child(4) i", "bars => bars.map(bar => bar.offsetHeight)"
    )
    assert heights[2] > 60 and heights[2] > heights[0], "the terminal reward towers"
    for name in ("#run", "#submit", "#use-last"):
        expect(page.locator(name)).to_be_disabled()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= size["width"], "nothing sticks out to the right"


def test_an_episode_to_a_wrong_answer_and_on_to_the_next(
    music_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(music_server, "music_count")
    run_query(page, "SELECT nope FROM singer")
    expect(page.locator("#result .error")).to_contain_text("no such column")
    expect(page.locator("#history .failed")).to_have_count(1)
    page.fill("#answer", "17")
    page.press("#answer", "Enter")
    expect(page.locator("#verdict-title")).to_have_text("Not correct")
    expect(page.locator("#gold-grid td.number")).to_have_text(["4"])
    page.select_option("#difficulty", "hard")
    page.click("#again")
    expect(page.locator("#question")).to_have_text("Which themes did Ann sing at, newest first?")
    expect(page.locator("#verdict")).to_be_hidden()
    expect(page.locator("#history li")).to_have_count(0)
    assert page.url.endswith("#music_join")


def test_the_database_and_the_difficulty_can_be_chosen(
    music_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(music_server)
    expect(page.locator("#database option")).to_have_text(["Any database", "music (4)"])
    page.select_option("#database", "music")
    page.select_option("#difficulty", "extra")
    page.click("#next")
    expect(page.locator("#notice")).to_contain_text("no question with")
    page.select_option("#difficulty", "hard")
    page.click("#next")
    expect(page.locator("#question")).to_have_text("Which themes did Ann sing at, newest first?")
    expect(page.locator("#notice")).to_be_hidden()


def test_the_address_leads_to_a_question(music_server: Running, visit: Callable[..., Page]) -> None:
    page = visit(music_server, "nowhere")
    expect(page.locator("#notice")).to_contain_text("'nowhere'")
    expect(page.locator("#notice")).to_contain_text("Here is another one")
    if page.url.endswith(
        "#music_join"
    ):  # the other one is drawn; an address that stays leads nowhere
        page.evaluate("location.hash = 'music_count'")
        expect(page.locator("#notice")).to_be_hidden()
    page.evaluate("location.hash = 'music_join'")
    expect(page.locator("#question")).to_have_text("Which themes did Ann sing at, newest first?")
    expect(page.locator("#notice")).to_be_hidden()
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#editor")).to_be_focused()
    assert page.url.endswith("#music_join")


def test_it_can_be_played_with_the_keyboard_alone(
    music_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(music_server, "music_count")
    page.locator("#tables .look").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#history li")).to_have_count(1)
    expect(page.locator("#tables .look").first).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator("#history .kind")).to_have_text(["DESCRIBE", "SAMPLE"])
    page.keyboard.press("Alt+q")
    page.keyboard.type("SELECT count(*)\nFROM singer")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result td.number")).to_have_text(["4"])
    page.keyboard.press("Alt+a")
    expect(page.locator("#answer")).to_be_focused()
    page.keyboard.press("Alt+l")
    expect(page.locator("#verdict-title")).to_have_text("Correct, in 4 steps")
    expect(page.locator("#verdict-title")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+n")
    expect(page.locator("#history li")).to_have_count(0)


def test_the_budget_ends_an_episode(music_server: Running, visit: Callable[..., Page]) -> None:
    page = visit(music_server, "music_count")
    for number in range(15):
        run_query(page, f"SELECT {number}")
    expect(page.locator("#verdict-title")).to_have_text("Out of steps")
    expect(page.locator("#budget i.used")).to_have_count(15)


def test_a_query_of_the_history_comes_back_into_the_editor(
    music_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(music_server, "music_count")
    run_query(page, "SELECT 11")
    run_query(page, "SELECT 22")
    page.locator("#history button").first.click()
    expect(page.locator("#editor")).to_have_value("SELECT 11")
    expect(page.locator("#paint .t-number")).to_have_text(["11"])


def watch(page: Page, policy: str, beside: str = "", speed: str = "full") -> None:
    page.select_option("#policy", policy)
    page.select_option("#beside", beside)
    page.select_option("#speed", label=speed)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_model_and_the_oracle_play_side_by_side(
    serve: Callable[..., Running],
    model_dir: Path,
    visit: Callable[..., Page],
    size: dict[str, int],
) -> None:
    server = serve(policies=(f"model:{model_dir}",))
    page = visit(server, "music_count", size)
    watch(page, model_dir.name, "oracle")
    page.click("#play")
    expect(page.locator(".lane")).to_have_count(2)
    expect(page.locator("#tables")).to_be_hidden()
    model, oracle = page.locator(".lane").nth(0), page.locator(".lane").nth(1)
    expect(oracle.locator(".lane-verdict")).to_contain_text("Correct")
    expect(oracle.locator(".kind")).to_have_text(["DESCRIBE", "QUERY", "ANSWER"])
    expect(oracle.locator(".grid td.number")).to_have_text(["4"])
    expect(model.locator(".writing")).to_be_visible()
    expect(model.locator(".writing")).to_have_text(re.compile(r"\w{3}"))
    expect(model.locator(".said").first).to_contain_text("What it wrote", timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.click("#leave")
    expect(page.locator("#stage")).to_be_hidden()
    expect(page.get_by_role("button", name="describe Singer")).to_be_enabled()
    expect(page.locator("#history li")).to_have_count(0)


def test_a_policy_is_paused_stepped_and_taken_over(
    music_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(music_server, "music_count")
    expect(page.locator("#more-policies")).to_contain_text("--policy model:PATH")
    watch(page, "oracle")
    for played in (1, 2):
        page.click("#step")
        expect(page.locator(".move")).to_have_count(played)
    page.wait_for_timeout(300)
    expect(page.locator(".move")).to_have_count(2)
    expect(page.locator("#play")).to_have_text("Play")

    page.locator(".take-over").nth(1).click()
    expect(page.locator("#stage")).to_be_hidden()
    expect(page.locator("#history .kind")).to_have_text(["DESCRIBE", "QUERY"])
    expect(page.locator("#budget-text")).to_have_text("13 of 15 left")
    expect(page.locator(".columns .column").first).to_have_text("Singer_ID")
    expect(page.locator("#result td.number")).to_have_text(["4"])
    page.click("#use-last")
    expect(page.locator("#verdict-title")).to_have_text("Correct, in 3 steps")


def test_it_can_be_taken_over_from_an_earlier_step(
    music_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(music_server, "music_count")
    watch(page, "oracle")
    page.keyboard.press("Alt+p")
    expect(page.locator("#play")).to_have_text("Play again")
    expect(page.locator(".take-over")).to_have_count(2)
    page.locator(".take-over").first.click()
    expect(page.locator("#history .kind")).to_have_text(["DESCRIBE"])
    expect(page.locator("#use-last")).to_be_disabled()
    run_query(page, "SELECT count(*) FROM singer")
    expect(page.locator("#result td.number")).to_have_text(["4"])


def test_a_pause_stops_it_and_the_next_question_begins_anew(
    music_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(music_server, "music_count")
    watch(page, "oracle", speed="slow")
    page.click("#play")
    expect(page.locator(".move")).to_have_count(1)
    page.click("#play")
    expect(page.locator("#play")).to_have_text("Play")
    page.wait_for_timeout(3000)
    expect(page.locator(".move")).to_have_count(1)
    page.select_option("#difficulty", "hard")
    page.click("#next")
    expect(page.locator("#question")).to_have_text("Which themes did Ann sing at, newest first?")
    expect(page.locator(".move")).to_have_count(0)
    page.select_option("#speed", label="full")
    page.click("#play")
    expect(page.locator(".lane-verdict")).to_contain_text("Correct")


def test_a_policy_is_watched_until_the_server_goes(music_dir: Path, browser: Browser) -> None:
    server = start_server(ServerSettings(dataset=str(music_dir)))
    page = browser.new_page()
    page.goto(f"{server.url}/web#music_count")
    page.wait_for_selector("main[aria-busy=false] .look")
    page.select_option("#policy", "oracle")
    page.click("#step")
    expect(page.locator(".move")).to_have_count(1)
    server.stop()
    expect(page.locator(".move .error")).to_contain_text("The connection to the server is gone")
    page.close()


def test_the_theme_is_remembered(music_server: Running, visit: Callable[..., Page]) -> None:
    page = visit(music_server)

    def paper() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = paper()
    page.click("#theme")
    dark = paper()
    assert dark != light
    page.reload()
    assert paper() == dark


def test_a_server_that_goes_away_is_told_and_play_goes_on_when_it_is_back(
    music_dir: Path, browser: Browser
) -> None:
    server = start_server(ServerSettings(dataset=str(music_dir), idle_seconds=0.5))
    page = browser.new_page()
    page.goto(f"{server.url}/web#music_count")
    page.wait_for_selector("main[aria-busy=false] .look")
    page.wait_for_timeout(900)
    page.get_by_role("button", name="describe Singer").click()
    expect(page.locator("#notice")).to_contain_text("nothing happened for a while")
    page.get_by_role("button", name="Begin this question again").click()
    expect(page.locator("#notice")).to_be_hidden()
    page.get_by_role("button", name="describe Singer").click()
    expect(page.locator("#history li")).to_have_count(1)
    server.stop()
    page.get_by_role("button", name="sample Singer").click()
    expect(page.locator("#notice")).to_contain_text("is gone")
    page.get_by_role("button", name="Begin this question again").click()
    expect(page.locator("#notice")).to_contain_text("does not answer")
    expect(page.get_by_role("button", name="Begin this question again")).to_be_visible()
    page.close()


def test_a_person_without_the_token_is_asked_for_it(
    serve: Callable[..., Running], browser: Browser
) -> None:
    server = serve(token="open sesame")
    page = browser.new_page()
    page.goto(server.url)
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("That is not the token.")
    page.fill("#token", "open sesame")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")
    page.get_by_role("button", name="describe Singer").click()
    expect(page.locator("#history li")).to_have_count(1)
    page.close()


@pytest.fixture(scope="module")
def hostile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Markup wherever data can put text: names, types, values, question, hint, id, gold."""
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "databases" / "evil" / "evil.sqlite"
    path.parent.mkdir(parents=True)
    table, column = ATTACK.replace('"', '""'), BREAKOUT.replace('"', '""')
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f'CREATE TABLE "{table}" ("{column}" "{table}", plain TEXT)')
        connection.execute(f'INSERT INTO "{table}" VALUES (?, ?)', (ATTACK, BREAKOUT))
        connection.commit()
    record: dict[str, Any] = {
        "question_id": f"q{BREAKOUT}",
        "question_text": f"What is {ATTACK}?",
        "database_name": "evil",
        "gold_sql": f'SELECT plain AS "{table}" FROM "{table}"',
        "gold_answer": BREAKOUT,
        "answer_type": "string",
        "difficulty": "easy",
        "tables_involved": [ATTACK],
        "split": "train",
        "hint": ATTACK,
    }
    (folder / "questions").mkdir()
    (folder / "questions" / "questions_train.json").write_text(json.dumps([record]))
    server = start_server(ServerSettings(dataset=str(folder)))
    yield server
    server.stop()


def test_hostile_text_is_shown_and_never_run(
    hostile_server: Running, visit: Callable[..., Page]
) -> None:
    page = visit(hostile_server)
    expect(page.locator("#question")).to_have_text(f"What is {ATTACK}?")
    expect(page.locator("#hint")).to_have_text(ATTACK)
    expect(page.locator(".table-name")).to_have_text([ATTACK])
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.locator("#tables .look").nth(0).click()
    expect(page.locator(".columns .column").first).to_have_text(BREAKOUT)
    page.locator("#tables .look").nth(1).click()
    expect(page.locator("#result tbody td:not(.row-number)")).to_have_text([ATTACK, BREAKOUT])
    quoted = ATTACK.replace("'", "''")
    run_query(page, f"SELECT '{quoted}' AS \"{BREAKOUT.replace(chr(34), chr(34) * 2)}\"")
    expect(page.locator("#result th").last).to_have_text(BREAKOUT)
    run_query(page, f"SELECT {ATTACK}")
    expect(page.locator("#result .error")).to_be_visible()
    page.select_option("#policy", "oracle")
    page.select_option("#speed", label="full")
    page.click("#play")
    expect(page.locator(".lane-verdict")).to_contain_text("Correct")
    expect(page.locator(".move .argument").first).to_have_text(ATTACK)
    page.click("#leave")
    page.fill("#editor", ATTACK + BREAKOUT)
    page.fill("#answer", ATTACK)
    page.press("#answer", "Enter")
    expect(page.locator("#verdict-title")).to_have_text("Not correct")
    expect(page.locator("#gold-sql")).to_contain_text("onerror")
    page.reload()
    page.wait_for_selector("main[aria-busy=false] .look")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 1, "the brand's own"
    assert page.locator("main script, main svg, main img").count() == 0


def test_even_markup_that_got_in_would_not_run(music_server: Running, browser: Browser) -> None:
    """The policy is a second wall behind the drawing code."""
    page = browser.new_page()
    page.goto(f"{music_server.url}/web")
    page.evaluate(
        "html => document.body.insertAdjacentHTML('beforeend', html)",
        "<img src=x onerror=\"window.hacked='yes'\"><svg onload=\"window.hacked='yes'\"></svg>",
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    policy = music_server.get("/web").headers["content-security-policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy
    page.close()
