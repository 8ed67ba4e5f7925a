"""Draw the pictures of the README and the documentation into docs/images/, with a real Chromium.

    python scripts/draw_pictures.py                     # the page that `sql-env serve` shows
    python scripts/draw_pictures.py report RUN RUN …    # the report of some runs, before and after
    python scripts/draw_pictures.py curve RUN           # a training run's reward curve

Needs Chromium (`apt-get install chromium`) and the `dev` extra.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect, sync_playwright

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
PORT = 8377
QUESTION = "city_transit_0061"  # the one that the README plays
TRAINED, BASE = "smollm2-135m-sqlenv", "smollm2-135m"
WIDTH, HEIGHT = 1280, 800


@contextmanager
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        browser.close()


@contextmanager
def server() -> Iterator[str]:
    url = f"http://127.0.0.1:{PORT}"
    policies = [f"--policy=model:checkpoints/{TRAINED}", f"--policy=model:{BASE}"]
    command = [sys.executable, "-m", "sql_env", "serve", "--port", str(PORT), *policies]
    process = subprocess.Popen(command)
    try:
        while True:
            try:
                httpx.get(f"{url}/health")
                break
            except httpx.TransportError:
                if process.poll() is not None:
                    raise SystemExit("the server did not start") from None
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait()


def draw_page() -> None:
    """The page in the middle of an episode: a look, a mistake, a query that is right.

    Then a trained model on the same question, and its base beside it.
    """
    with server() as url, browser_page() as page:
        page.goto(f"{url}/web#{QUESTION}")
        page.wait_for_selector("main[aria-busy=false] .look")
        for steps, look in enumerate(("describe Operators", "sample Operators")):
            page.get_by_role("button", name=look).click()
            expect(page.locator("#history li")).to_have_count(steps + 1)
        for date in ("HiredOn", "EmployedSince"):
            sql = f"SELECT avg(Salary) FROM Operators\nWHERE {date} < '2014-12-12'"
            steps = page.locator("#history li").count()
            page.fill("#editor", sql)
            page.keyboard.press("Control+Enter")
            expect(page.locator("#history li")).to_have_count(steps + 1)
        page.wait_for_timeout(500)  # the bars of the chart are still growing
        page.screenshot(path=IMAGES / "page.png")
        page.select_option("#policy", TRAINED)
        page.select_option("#beside", BASE)
        page.select_option("#speed", label="full")
        page.click("#play")
        trained = page.locator(".lane").first
        expect(trained.locator(".lane-verdict")).to_be_visible(timeout=120_000)
        page.screenshot(path=IMAGES / "watch.png")


def draw_report(runs: list[str]) -> None:
    """The top of the report, and one question before and after."""
    with tempfile.TemporaryDirectory() as name, browser_page() as page:
        file = Path(name) / "report.html"
        command = [sys.executable, "-m", "sql_env", "report", *runs, "--out", str(file)]
        subprocess.run(command, check=True)
        page.goto(file.as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "report.png")
        page.evaluate("document.getElementById('episodes-title').scrollIntoView()")
        page.wait_for_timeout(300)
        page.screenshot(path=IMAGES / "before-and-after.png")


def draw_curve(run: str) -> None:
    """The mean reward of every step of a training run."""
    from sql_env.training.pipeline import reward_points
    from sql_env.training.plots import reward_figure, save_figure
    from sql_env.training.run_log import RunLog

    save_figure(reward_figure(reward_points(RunLog(run).metrics())), IMAGES / "reward.png")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    match sys.argv[1:]:
        case []:
            draw_page()
        case ["report", *runs] if runs:
            draw_report(runs)
        case ["curve", run]:
            draw_curve(run)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
