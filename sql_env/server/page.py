"""The page a person plays on: `/web`, its login, its files, and what there is to choose from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from sql_env.models import DIFFICULTIES, QuestionRecord
from sql_env.server.access import COOKIE, page_cookie, token_matches
from sql_env.server.players import how_to_have_a_model
from sql_env.server.settings import ServerSettings

_WEB = Path(__file__).parent / "web"
# Scripts and styles come from this server only, and none stand in the page itself: text from a
# database can be drawn but not run. A Space shows the page in a frame.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'self' https://huggingface.co"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


def page_routes(
    settings: ServerSettings, questions: Sequence[QuestionRecord], policies: Collection[str]
) -> list[BaseRoute]:
    """The routes of the page; they go before OpenEnv's, whose own page would lie at `/web` too."""
    templates = Jinja2Templates(directory=_WEB / "templates")
    catalogue = {
        **_catalogue(questions),
        "policies": list(policies),
        "more_policies": how_to_have_a_model(settings),
        "pays_at_the_end": settings.rewards == "end",
    }

    async def root(_: Request) -> Response:
        return RedirectResponse("/web")

    async def page(request: Request) -> Response:
        return templates.TemplateResponse(request, "page.html", headers=_HEADERS)

    async def show_login(request: Request) -> Response:
        return templates.TemplateResponse(request, "login.html", {"wrong": False}, headers=_HEADERS)

    async def log_in(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0]
        if not token_matches(given, settings):
            return templates.TemplateResponse(
                request, "login.html", {"wrong": True}, status_code=401, headers=_HEADERS
            )
        response = RedirectResponse("/web", status_code=303)
        if settings.token:
            response.set_cookie(
                COOKIE,
                page_cookie(settings.token),
                httponly=True,
                samesite="strict",
                # Behind a proxy that ends TLS, the browser alone knows.
                secure=request.headers.get("origin", "").startswith("https:"),
            )
        return response

    async def choices(_: Request) -> Response:
        return JSONResponse(catalogue, headers=_HEADERS)

    return [
        Route("/", root),
        Route("/web", page),
        Route("/web/login", show_login, methods=["GET"]),
        Route("/web/login", log_in, methods=["POST"]),
        Route("/web/catalogue", choices),
        Mount("/web/static", _FreshFiles(directory=_WEB / "static")),
    ]


class _FreshFiles(StaticFiles):
    """Files that a browser keeps but asks about, so that an upgraded server shows its own page."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _catalogue(questions: Sequence[QuestionRecord]) -> dict[str, Any]:
    """How many questions there are for each database and difficulty."""
    counts: dict[str, Counter[str]] = {}
    for record in questions:
        counts.setdefault(record.database_name, Counter())[record.difficulty] += 1
    return {
        "questions": len(questions),
        "difficulties": list(DIFFICULTIES),
        "databases": [{"name": name, "questions": counts[name]} for name in sorted(counts)],
    }
