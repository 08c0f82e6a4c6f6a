"""`doctor --engine`: what a server supports, found with harmless requests only."""

import io

import pytest
from chat_server import ChatServerDouble, completion, is_probe
from PIL import Image

from medvqa_hub.cli import run
from medvqa_hub.engine_check import _show_square

VARIABLE = "THE_KEY"


def reply_of(body):
    if is_probe(body) and "response_format" in body:
        return completion('{"number": 4}')
    found = completion("Hello\n there.")
    has_image = isinstance(body["messages"][-1]["content"], list)
    found["usage"]["prompt_tokens"] += 50 * has_image
    return found


def examine(double, capsys, *options):
    code = run(["doctor", "--engine", double.endpoint, "--wait", "1s", *options])
    out = " ".join(capsys.readouterr().out.split())
    return code, out


def test_everything_that_a_server_supports_is_listed(capsys, monkeypatch):
    monkeypatch.setenv(VARIABLE, "sk-secret")
    with ChatServerDouble(reply_of, models=("tiny", "big"), key="sk-secret") as double:
        code, out = examine(double, capsys, "--model", "tiny", "--api-key-env", VARIABLE)
    assert code == 0 and "sk-secret" not in out
    for part in (
        "(double)",
        "ok models tiny, big",
        "ok schema json_schema is followed",
        "ok seed accepted",
        "ok key sent and required",
        "ok images accepted, 50 tokens",
        "ok test reply 'Hello there.'",
        "s alone, ",
    ):
        assert part in out


def test_what_a_server_does_not_support_is_a_note(capsys):
    def reply(body):
        if isinstance(body["messages"][-1]["content"], list):
            return 400, {"error": {"message": "no images here"}}
        refused = {"seed", "response_format"} & set(body)
        return (422, {}) if refused else completion("Hello.") | {"model": "other"}

    with ChatServerDouble(reply) as double:
        code, out = examine(double, capsys)
    assert code == 0
    for part in (
        "note model tiny, but replies name other: runs need --any-model",
        "note schema not supported",
        "note seed not supported",
        "ok key not sent",
        "note images not supported (refused with status 400: no images here)",
    ):
        assert part in out


def test_a_server_without_a_usable_reply_fails_the_command(capsys):
    with ChatServerDouble(lambda body: completion("Hello.", finish="length")) as double:
        code, out = examine(double, capsys)
    assert code == 1 and "missing test reply none: finish_reason=length" in out


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (lambda url: 100, "note images accepted and ignored"),
        (lambda url: 100 + len(url) // 4, "note images not supported: read as text"),
        (lambda url: None, "ok images accepted "),
    ],
)
def test_an_image_that_is_not_seen_is_no_support(tokens, said, capsys):
    def reply(body):
        content, found = body["messages"][-1]["content"], completion("Hello.")
        if isinstance(content, list):
            found["usage"]["prompt_tokens"] = tokens(content[0]["image_url"]["url"])
        return found

    with ChatServerDouble(reply) as double:
        assert said in examine(double, capsys)[1]


def test_the_square_is_a_picture():
    """Either way compressed it is the same one."""
    pictures = [Image.open(io.BytesIO(_show_square(compression).messages[0].images[0].data)) for compression in (9, 0)]
    assert all(picture.size == (32, 32) and picture.getextrema() == (128, 128) for picture in pictures)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "http://127.0.0.1:9/v1", "--wait", "0s"], "has not answered"),
        (["--engine", "rules"], "spelled"),
        (["--model", "tiny"], "--model only applies to language models"),
    ],
)
def test_what_cannot_be_examined_is_one_line(arguments, said, capsys):
    assert run(["doctor", *arguments]) == 1
    line = capsys.readouterr().err.strip()
    assert said in line and "\n" not in line
