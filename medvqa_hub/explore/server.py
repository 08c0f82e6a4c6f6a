"""The explorer's server: gradio's server with our own page.

    GET  /                    the page, whose query string is its state
    GET  /static/NAME         scripts and styles
    GET  /api/about           the opened folders and their class
    GET  /api/studies, /api/study, /image                                    (studies.py)
    GET  /api/reports, /api/report, /api/report_history, /page_image; POST /api/save_report   (reports.py)
    GET  /api/review_item, /review_image; POST /api/save_rating              (reviewing.py)
    POST /api/upload          an image for Ask                               (uploads.py)
    POST /gradio_api/call/ask, GET /gradio_api/call/ask/EVENT                (live_questions.py)

gradio provides the server, the queue for questions, and support for Spaces. The page is plain HTML and JavaScript,
since gradio's own page loads 34 files first and cannot window images or load rows on demand.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa_core.edit_log import EditConflictError
from medvqa_core.errors import InputError, MedvqaError, one_line
from medvqa_hub.explore.guarding import UPLOAD, Guard
from medvqa_hub.explore.live_questions import ChatHandler, Question
from medvqa_hub.explore.opening import OpenDataset
from medvqa_hub.explore.pictures import Picture, read_picture
from medvqa_hub.explore.reports import LARGEST_SIDE, ReportView
from medvqa_hub.explore.reviewing import ReviewView
from medvqa_hub.explore.row_filters import RowFilter
from medvqa_hub.explore.studies import StudyView

if TYPE_CHECKING:
    from fastapi import FastAPI

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ENVIRONMENT = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}


def make_server(opened: OpenDataset, key: str | None = None, hosts: tuple[str, ...] = ()) -> "FastAPI":
    """Make the server of a page, without starting it.

    Args:
        key: key that requests must have (`guarding.Guard`).
        hosts: further host names.
    """
    os.environ.update(ENVIRONMENT)  # gradio reads it when it is imported
    from fastapi import Request
    from fastapi.responses import JSONResponse, Response
    from gradio import Server

    class GuardedServer(Server):
        def build_middleware_stack(self):
            return Guard(super().build_middleware_stack(), key, hosts)  # around gradio's middleware

    server = GuardedServer(title="medvqa-hub", openapi_url=None, docs_url=None, redoc_url=None)

    @server.exception_handler(MedvqaError)
    def explain(_: Request, error: MedvqaError) -> JSONResponse:
        return JSONResponse({"error": one_line(error)}, 409 if isinstance(error, EditConflictError) else 400)

    @server.get("/")
    def page() -> Response:
        return Response((STATIC / "page.html").read_bytes(), media_type="text/html")

    @server.get("/static/{name}")
    def static(name: str) -> Response:
        file = next((file for file in STATIC.iterdir() if file.name == name and file.suffix in MEDIA_TYPES), None)
        return Response(file.read_bytes(), media_type=MEDIA_TYPES[file.suffix]) if file else Response(status_code=404)

    @server.get("/api/about")
    def about() -> dict[str, Any]:
        return opened.about()

    if opened.studies is not None:
        _serve_studies(server, opened.studies)
    if opened.reports is not None:
        _serve_reports(server, opened.reports)
    if opened.review is not None:
        _serve_review(server, opened.review)
    if opened.ask is not None:
        _serve_ask(server, opened.ask)
    return server


def _serve_studies(server: "FastAPI", view: StudyView) -> None:
    from fastapi import Depends
    from fastapi.responses import Response

    def read_filter(
        split: str = "",
        category: str = "",
        label: str = "",
        flag: str = "",
        q: str = "",
        difference: str = "",
        verdict: str = "",
    ) -> RowFilter:
        return RowFilter(
            split or None, category or None, label or None, flag or None, q.strip(), difference or None, verdict or None
        )

    @server.get("/api/studies")
    def studies(at: int = 0, wanted: RowFilter = Depends(read_filter)) -> dict[str, Any]:  # noqa: B008 - FastAPI's way
        return view.page(wanted, at)

    @server.get("/api/study")
    def study(study: int, wanted: RowFilter = Depends(read_filter)) -> dict[str, Any]:  # noqa: B008
        return view.study(study, wanted)

    @server.get("/image")
    def image(study: int, number: int = 0, side: int | None = None) -> Response:
        return _send(read_picture(view.images.file(view.image_path(study, number)), check_side(side)))


def _serve_reports(server: "FastAPI", view: ReportView) -> None:
    from fastapi import Body
    from fastapi.responses import Response

    @server.get("/api/reports")
    def reports(text: str = "", status: str = "", at: int = 0) -> dict[str, Any]:
        return view.page(text, status, at)

    @server.get("/api/report")
    def report(path: str) -> dict[str, Any]:
        return view.report(path)

    @server.get("/api/report_history")
    def report_history(path: str) -> list[dict[str, Any]]:
        return view.history(path)

    @server.post("/api/save_report")
    def save_report(path: str = Body(), edit: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        return view.save(path, edit)

    @server.get("/page_image")
    def page_image(path: str, side: int | None = None) -> Response:
        return _send(view.picture(path, check_side(side) or LARGEST_SIDE))


def _serve_review(server: "FastAPI", view: ReviewView) -> None:
    from fastapi import Body
    from fastapi.responses import Response

    @server.get("/api/review_item")
    def review_item(rater: str, number: int | None = None) -> dict[str, Any]:
        return view.item(rater, number)

    @server.post("/api/save_rating")
    def save_rating(rater: str = Body(), item: str = Body(), edit: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        return view.save(rater, item, edit)

    @server.get("/review_image")
    def review_image(rater: str, item: str, number: int, side: int | None = None) -> Response:
        return _send(read_picture(view.image(rater, item, number), check_side(side)))


def _serve_ask(server: Any, handler: ChatHandler) -> None:
    @server.api(name="ask", concurrency_limit=1, api_visibility="undocumented")
    async def ask(question: str) -> str:
        try:
            parsed = Question(**json.loads(question))
        except (ValueError, TypeError):
            return json.dumps({"answer": None, "error": "the question cannot be read"})
        return json.dumps(await handler.ask(parsed))

    uploads = handler.uploads
    if uploads is None:
        return
    from fastapi import Request

    @server.post(UPLOAD)
    async def upload(request: Request) -> dict[str, str]:
        return {"name": await asyncio.to_thread(uploads.add, await request.body())}


def check_side(side: int | None) -> int | None:
    """Raise InputError if the side of a smaller image is out of range."""
    if side is not None and not 16 <= side <= 2048:
        raise InputError(f"side {side} is out of range. Expected 16 to 2048 pixels.")
    return side


def _send(picture: Picture) -> Any:
    from fastapi.responses import Response

    return Response(picture.data, media_type=picture.media_type)
