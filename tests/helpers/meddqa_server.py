"""A scripted server that is asked about report images: what it was shown, and a model that knows every answer."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chat_server import ChatServerDouble, completion, is_probe
from meddqa_engine import build
from PIL import Image

from medvqa_core.digests import digest
from medvqa_core.llm.options import EngineOptions
from medvqa_hub.evaluation.meddqa.evaluating import MeddqaOptions, evaluate_meddqa
from medvqa_hub.evaluation.meddqa.models import ModelOptions
from rjua_meddqa.inference.language_model import AGAIN
from rjua_meddqa.inference.page_images import ImageRule
from rjua_meddqa.inference.questions import load_questions


def build_told_apart(root: Path) -> Path:
    """Three images of different content: requests tell them apart by their bytes."""
    build(root)
    for shade, path in enumerate(sorted((root / "images").iterdir())):
        Image.new("RGB", (40, 30), (shade, 200, 200)).save(path)
    return root


def evaluate(data: Path, out: Path, server: ChatServerDouble, model: str = "tiny", **options: Any) -> dict[str, Any]:
    """`evaluate meddqa` with a server; `options` are those of ModelOptions, and retry_failed, pages and slots."""
    own = {name: options.pop(name) for name in ("retry_failed", "pages") if name in options}
    named = options.pop("engine", f"server:{server.endpoint}")
    engines = (named,) if isinstance(named, str) else tuple(named)
    engine = EngineOptions(engines, model, options.pop("slots", None), "2s")
    return evaluate_meddqa(MeddqaOptions(model, data, out, asking=ModelOptions(engine, **options), **own))


def parts_of(message: dict[str, Any]) -> tuple[list[bytes], str]:
    """Images and text of a message."""
    content = message["content"]
    if isinstance(content, str):
        return [], content
    images = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    text = "".join(part["text"] for part in content if part["type"] == "text")
    return [base64.b64decode(image.partition(",")[2]) for image in images], text


def question_of(body: dict[str, Any]) -> str:
    return parts_of(body["messages"][-1])[1].partition("问题：")[2]


def serve(reply: Callable[[dict[str, Any]], Any], **settings: Any) -> ChatServerDouble:
    """A server whose model says `reply(body)`: a text, or whatever `ChatServerDouble` takes."""

    def answer(body: dict[str, Any]) -> Any:
        if is_probe(body):
            return completion("hello")
        said = reply(body)
        return completion(said) if isinstance(said, str) else said

    return ChatServerDouble(answer, **settings)


def knowing(data: Path) -> Callable[[dict[str, Any]], str]:
    """A model that knows the answer to each question about each image, by the bytes that it is shown."""
    answers = {
        (digest(ImageRule().encode(row.image).data), row.question.removeprefix("问题:").strip()): row.answer
        for row in load_questions(data).rows
    }

    def reply(body: dict[str, Any]) -> str:
        (image,), _ = parts_of(body["messages"][-1])
        return answers[digest(image), question_of(body)]

    return reply


def asked(server: ChatServerDouble) -> list[dict[str, Any]]:
    """The first request of each question."""
    return [body for body in server.requests if not is_probe(body) and not is_second(body)]


def asked_again(server: ChatServerDouble) -> list[dict[str, Any]]:
    """The second requests, after replies without an answer."""
    return [body for body in server.requests if not is_probe(body) and is_second(body)]


def is_second(body: dict[str, Any]) -> bool:
    return str(body["messages"][-1]["content"]).startswith(AGAIN[:8])
