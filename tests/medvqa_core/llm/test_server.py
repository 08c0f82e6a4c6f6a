"""The client of OpenAI-compatible servers against a real one on loopback that misbehaves on request."""

import asyncio
import json
import socket
from dataclasses import replace

import pytest
from chat_server import ChatServerDouble, completion, connect_to, is_probe

from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance
from medvqa_core.llm import server as servers
from medvqa_core.llm.chat import ChatRequest, Image, Message, Usage
from medvqa_core.llm.completions import ServerCapabilities, parse_error_reason, read_completion
from medvqa_core.llm.server import ChatServer, ServerError

REQUEST = ChatRequest((Message("system", "s"), Message("user", "u")), schema={"type": "object"}, seed=3)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(servers, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(servers, "LONGEST_PAUSE", 0.01)


def ask(double, *requests, **settings):
    async def run():
        async with ChatServer(double.endpoint, **{"wait": 1, **settings}) as server:
            return server, await asyncio.gather(*(server.chat(request) for request in requests))

    return asyncio.run(run())


def obedient(body):
    return completion('{"number": 4}' if is_probe(body) else "fine")


def test_a_plain_exchange_carries_messages_schema_seed_and_gives_text_and_usage():
    with ChatServerDouble(obedient) as double:
        server, (reply,) = ask(double, REQUEST)
    assert (reply.text, reply.error, reply.usage) == ("fine", None, Usage(100, 60, 7))
    sent = double.requests[-1]
    assert sent["model"] == "tiny" and sent["seed"] == 3 and sent["temperature"] == 0.0
    assert sent["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert server.description == {"model": "tiny", "schema": "enforced", "seed": True, "served_by": "double"}


def test_images_travel_as_data_addresses_before_the_text():
    request = ChatRequest((Message("user", "what?", (Image(b"\xff\xd8", "image/jpeg"),)),))
    with ChatServerDouble(obedient) as double:
        ask(double, request)
    image, text = double.requests[-1]["messages"][0]["content"]
    assert image == {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9g="}}
    assert text == {"type": "text", "text": "what?"}


@pytest.mark.parametrize(
    "refused, capabilities",
    [
        ((), ServerCapabilities("enforced", True)),
        (("response_format",), ServerCapabilities("refused", True)),
        (("response_format", "seed"), ServerCapabilities("refused", False)),
    ],
)
def test_what_a_server_refuses_is_found_once_and_never_sent_again(refused, capabilities):
    def reply(body):
        if set(refused) & set(body):
            return 422, {"detail": "extra fields not permitted"}
        return obedient(body)

    with ChatServerDouble(reply) as double:
        server, replies = ask(double, REQUEST, REQUEST)
    assert server.capabilities == capabilities and [r.text for r in replies] == ["fine", "fine"]
    assert not any(set(refused) & set(body) for body in double.requests[-2:])


def test_a_schema_that_is_taken_and_ignored_is_recorded_as_ignored():
    with ChatServerDouble(lambda body: completion("hello")) as double:
        server, _ = ask(double, REQUEST)
    assert server.description["schema"] == "ignored"


def test_a_model_that_says_nothing_useful_to_the_probe_is_still_met():
    with ChatServerDouble(lambda body: completion("hello hello hello", finish="length")) as double:
        server, (reply,) = ask(double, REQUEST)
    assert server.capabilities == ServerCapabilities("ignored", True) and "finish_reason=length" in reply.error


def test_busy_and_broken_answers_are_tried_again_until_they_work():
    troubles = [(429, {}), (503, {}), (500, {}), (200, None), (408, {})]

    def reply(body):
        return troubles.pop() if not is_probe(body) and troubles else obedient(body)

    with ChatServerDouble(reply) as double:
        _, (answer,) = ask(double, REQUEST, wait=30)
    assert answer.text == "fine" and not troubles


def test_a_request_that_the_server_refuses_is_that_request_s_failure():
    def reply(body):
        if body["messages"][-1]["content"] == "long":
            return 400, {"error": {"message": "maximum context length is 8192 tokens"}}
        return obedient(body)

    long = ChatRequest((Message("user", "long"),))
    with ChatServerDouble(reply) as double:
        _, (refused, good) = ask(double, long, REQUEST)
    assert refused.error == "refused with status 400: maximum context length is 8192 tokens" and refused.text is None
    assert good.text == "fine"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_refuses_everybody_ends_in_one_line_and_one_refused_request_fails_alone(status):
    def denies(body):
        if body["messages"][-1]["content"] == "u":
            return status, {"error": {"message": "The model `tiny` does not exist."}}
        return obedient(body)

    other = ChatRequest((Message("user", "other"),))
    with ChatServerDouble(denies) as double:
        _, (denied, good) = ask(double, REQUEST, other)
        assert denied.error == f"refused with status {status}: The model `tiny` does not exist." and good.text == "fine"

        def restarted(body):
            met = len(double.requests) == before + 1
            return obedient(body) if met else (status, {"detail": "no"})

        before, double.reply = len(double.requests), restarted
        with pytest.raises(ServerError, match=f"status {status}"):
            ask(double, other, wait=60)
        assert len(double.requests) == before + 3, "nothing is asked again and again"


def test_one_request_that_breaks_a_server_which_answers_others_fails_alone():
    async def run(double):
        async with ChatServer(double.endpoint, wait=60) as server:
            poison = asyncio.create_task(server.chat(ChatRequest((Message("user", "poison"),))))
            while not poison.done():
                assert (await server.chat(REQUEST)).text == "fine"
            return await poison

    def reply(body):
        return (500, {}) if body["messages"][-1]["content"] == "poison" else obedient(body)

    with ChatServerDouble(reply) as double:
        assert asyncio.run(run(double)).error == f"status 500, {servers.TRIES} times while a plain request was answered"


@pytest.mark.parametrize("wait", [0.001, 30])
@pytest.mark.parametrize("trouble", [(500, {}), (502, {}), (200, None)])
def test_a_request_that_always_fails_is_a_failure_even_if_nothing_else_is_in_flight(trouble, wait):
    with ChatServerDouble(lambda body: obedient(body) if is_probe(body) else trouble) as double:
        _, (reply,) = ask(double, REQUEST, slots=1, wait=wait)
        double.reply = obedient
        _, (after,) = ask(double, REQUEST, slots=1)
    assert "times while a plain request was answered" in reply.error and reply.text is None
    assert wait < 1 or f", {servers.TRIES} times" in reply.error
    assert after.text == "fine"


def test_a_request_that_is_always_answered_as_busy_fails_after_the_time_to_wait(monkeypatch):
    monkeypatch.setattr(servers, "TRIES", 1)
    with ChatServerDouble(lambda body: obedient(body) if is_probe(body) else (503, {})) as double:
        _, (reply,) = ask(double, REQUEST, slots=1, wait=0.3)
    assert reply.error.startswith("status 503, ") and ", 1 times" not in reply.error


def go_down(double):
    """A reply for a server that answers the first probe and nothing else."""
    return lambda body: obedient(body) if len(double.requests) == 1 else (503, {})


def test_a_server_that_is_down_stops_the_run():
    with ChatServerDouble(obedient) as double:
        endpoint, double.reply = double.endpoint, go_down(double)
        with pytest.raises(ServerError, match="(?i)status 503.*run the same command"):
            ask(double, REQUEST, wait=0.1)
    with pytest.raises(ServerError, match="has not answered for 0 s .*ClientConnectorError.*Start the server"):
        asyncio.run(_meet(endpoint, wait=0.05))


def test_waiting_is_logged_once(monkeypatch, caplog):
    monkeypatch.setattr(servers, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(servers, "SILENCE", 0.0)
    with ChatServerDouble(obedient) as double:
        endpoint, double.reply = double.endpoint, go_down(double)
        with pytest.raises(ServerError):
            ask(double, REQUEST, wait=0.1)
        (line,) = caplog.messages
        assert "status 503. Waiting up to 0 s for it (--wait)" in line
    caplog.clear()
    with pytest.raises(ServerError):
        asyncio.run(_meet(endpoint, wait=0.05))
    (line,) = caplog.messages
    assert line.startswith(endpoint) and "ClientConnectorError). Waiting" in line


def test_retry_after_is_honoured(monkeypatch):
    slept = []
    sleep = asyncio.sleep

    async def record(seconds):
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(servers.asyncio, "sleep", record)
    monkeypatch.setattr(ChatServerDouble, "headers", {"Retry-After": "7"}, raising=False)
    busy = [(429, {}), (500, {})]
    with ChatServerDouble(lambda body: busy.pop() if busy and not is_probe(body) else obedient(body)) as double:
        _, (reply,) = ask(double, REQUEST, wait=30)
    assert reply.text == "fine" and slept.count(7) == 2


@pytest.mark.parametrize("status", [400, 500])
def test_a_server_without_json_schema_is_tried_with_json_object_and_its_schema(status):
    """llama-cpp-python answers 500 to json_schema and enforces a schema with json_object."""

    def reply(body):
        kind = body.get("response_format", {}).get("type")
        return (status, {}) if kind == "json_schema" else completion('{"number": 1}' if is_probe(body) else "fine")

    with ChatServerDouble(reply) as double:
        server, (found,) = ask(double, REQUEST)
    assert found.text == "fine" and server.description["schema"] == "enforced by json_object"
    assert double.requests[-1]["response_format"] == {"type": "json_object", "schema": {"type": "object"}}


def test_json_object_that_does_not_follow_the_schema_is_not_used():
    def reply(body):
        kind = body.get("response_format", {}).get("type")
        return (400, {}) if kind == "json_schema" else completion('{"a": 1}' if kind else "hello")

    with ChatServerDouble(reply) as double:
        server, _ = ask(double, REQUEST)
    assert server.capabilities == ServerCapabilities("refused", True)


def test_the_key_is_sent_as_bearer_and_never_shown(caplog, capsys):
    def reply(body):
        return obedient(body) if is_probe(body) else (400, {"error": {"message": "bad key sk-secret"}})

    with ChatServerDouble(reply, key="sk-secret") as double:
        server, (refused,) = ask(double, REQUEST, api_key="sk-secret")
        assert refused.error == "refused with status 400: bad key …" and "sk-secret" not in repr(server)
        assert "sk-secret" not in json.dumps([server.description, caplog.messages, *capsys.readouterr()])
        with pytest.raises(ServerError, match="--api-key-env"):
            ask(double, REQUEST)


@pytest.mark.parametrize(
    "name, same", [("tiny", True), ("org/tiny@main", True), ("tiny:latest", True), ("tiny-2", False)]
)
def test_a_reply_of_another_model_stops_the_run_unless_any_model_is_accepted(name, same):
    with ChatServerDouble(lambda body: {**obedient(body), "model": name}) as double:
        if same:
            assert ask(double, REQUEST, model="tiny")[1][0].model is None
        else:
            with pytest.raises(ServerError, match=f"{name}.*--any-model"):
                ask(double, REQUEST, model="tiny")
        assert ask(double, REQUEST, model="tiny", any_model=True)[1][0].model == name


def test_a_resolver_that_changes_its_mind_does_not_move_credentialed_texts(monkeypatch):
    """The name is this machine when it is checked, and another address when it is connected to."""
    answers = ["127.0.0.1"]
    resolve = socket.getaddrinfo

    def change(host, port, *rest, **more):
        address = answers.pop() if answers else "127.0.0.2" if host == "localhost" else host
        monkeypatch.setattr("medvqa_core.addresses.is_loopback_peer", lambda peer: peer == "127.0.0.1")
        return resolve(address, port, *rest, **more)

    with ChatServerDouble(obedient) as double:
        monkeypatch.setattr(socket, "getaddrinfo", change)
        with pytest.raises(GovernanceError, match="127.0.0.2 is not this machine"):
            connect_to(f"server:http://localhost:{double.port}/v1", Governance.CREDENTIALED, i_run_this_server=True)
        assert not double.requests


async def _meet(endpoint, **settings):
    async with ChatServer(endpoint, **settings):
        pass


@pytest.mark.parametrize(
    "endpoint",
    ["http://93.184.216.34/v1", "http://[::ffff:8.8.8.8]/v1", "http://0.0.0.0:9/v1"],
)
def test_credentialed_texts_connect_to_this_machine_only(endpoint, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # would carry the text away if it were read
    with pytest.raises(GovernanceError, match="is not this machine"):
        asyncio.run(_meet(endpoint, model="m", wait=0.05))


@pytest.mark.parametrize("endpoint", ["http://[::1].evil.com/v1", "127.0.0.1:8000", "ftp://127.0.0.1/v1"])
def test_what_is_no_address_is_said_at_once(endpoint):
    with pytest.raises(ConfigError, match="is not a URL"):
        asyncio.run(_meet(endpoint, model="m", wait=600))


def test_a_redirect_is_not_followed():
    with (
        ChatServerDouble(lambda body: (307, {})) as double,
        pytest.raises(ServerError, match="rejects a plain request"),
    ):
        ask(double, REQUEST)


@pytest.mark.parametrize("models", [(), ("a", "b")])
def test_without_a_model_s_name_the_server_must_list_exactly_one(models):
    with ChatServerDouble(obedient, models=models) as double, pytest.raises(ConfigError, match="--model"):
        ask(double, REQUEST)


@pytest.mark.parametrize(
    "body, error",
    [
        (completion(""), "empty reply"),
        (completion(None), "empty reply"),
        (completion('{"answer": "No', finish="length"), "finish_reason=length"),
        (completion("<think>hm"), "nothing but thoughts"),
        (completion(None, finish="length", reasoning_content="hm"), "within its thoughts"),
        (completion('{"answer": "No."}', finish="MAX_TOKENS"), "finish_reason=length"),
        (completion('{"answer": "No."}', finish="content_filter"), "finish_reason=content_filter: the server broke"),
        (completion('{"answer": "No."}', finish="abort"), "finish_reason=abort: the server broke"),
        (completion('{"answer": "No."}') | {"error": {"message": "gone"}}, "an error beside its reply"),
        ({"choices": []}, "no chat completion"),
        ([], "no chat completion"),
        (None, "no chat completion"),
    ],
)
def test_a_reply_without_an_answer_is_a_failure_with_its_reason(body, error):
    reply = read_completion(body)
    assert reply.text is None and error in reply.error


def test_thoughts_are_kept_apart_from_the_answer():
    reply = read_completion(completion("<think>hm</think>No."))
    assert reply.text == "No." and "hm" in reply.reasoning
    assert read_completion(completion("No.", reasoning_content="hm")).reasoning == "hm"


@pytest.mark.parametrize("content", ["No.", ""])
@pytest.mark.parametrize("thoughts", ["half a \ud800", {"a": "hm"}, ["hm"], 7])
def test_thoughts_that_are_no_text_are_not_kept(content, thoughts):
    assert read_completion(completion(content, reasoning_content=thoughts)).reasoning is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("too long:\n 4096 tokens", "too long: 4096 tokens"),
        ("a " * 200, "a reason that cannot be shown; see the server's log"),
        ("\x1b[2J", "a reason that cannot be shown; see the server's log"),
        ("\ud800", "a reason that cannot be shown; see the server's log"),
        (None, "no reason given"),
        (7, "a reason that cannot be shown; see the server's log"),
    ],
)
def test_of_a_refusal_only_what_can_be_shown_is_said(message, said):
    for body in ({"error": {"message": message}}, {"error": message}, {"detail": message}):
        assert parse_error_reason(body) == said


def test_a_server_that_fails_to_list_its_models_is_used_all_the_same(monkeypatch):
    """`transformers serve` does where there is no cache of the Hub."""
    from aiohttp import web

    async def fails(_, __):
        return web.json_response({}, status=500)

    monkeypatch.setattr(ChatServerDouble, "_models", fails)
    with ChatServerDouble(obedient) as double:
        server, (reply,) = ask(double, REQUEST, model="tiny")
    assert reply.text == "fine" and server.description["served_by"] == "unknown server"


def test_a_body_beyond_the_bound_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(servers, "LONGEST_BODY", 10_000)
    with ChatServerDouble(lambda body: completion("x" * (5 if is_probe(body) else 20_000))) as double:
        _, (reply,) = ask(double, REQUEST)
    assert reply.text is None and reply.error == "an answer of more than 10,000 bytes"


@pytest.mark.parametrize("content, reason", [("bad \ud800", "half characters"), ("x" * 200_001, "at most 200000")])
def test_what_no_file_can_hold_and_endless_texts_are_no_replies(content, reason):
    reply = read_completion(completion(content))
    assert reply.text is None and reason in reply.error


@pytest.mark.parametrize("listed", [None, 5, ["tiny"], [{"id": "a"}, {"id": "b"}]])
def test_a_list_of_models_that_is_none_asks_for_the_name(listed, monkeypatch):
    from aiohttp import web

    async def answer(self, _):
        return web.json_response({"data": listed})

    monkeypatch.setattr(ChatServerDouble, "_models", answer)
    with ChatServerDouble(obedient) as double, pytest.raises(ConfigError, match="with --model"):
        ChatServer(double.endpoint, wait=1).connect()


def test_capabilities_that_an_earlier_run_found_survive_faults_and_are_given_up_when_refused():
    """Otherwise a server with bad moments would seem another one, and the run would not be resumed."""
    known = ServerCapabilities("enforced", True)
    faults = [(500, {})] * 4

    def flaky(body):
        return faults.pop() if faults and "response_format" in body else completion("hello")

    with ChatServerDouble(flaky) as double:
        server, _ = ask(double, REQUEST, known=known)
    assert server.capabilities == known and not faults
    with ChatServerDouble(lambda body: (400, {}) if "response_format" in body else obedient(body)) as double:
        server, _ = ask(double, REQUEST, known=known)
    assert server.capabilities == ServerCapabilities("refused", True)


def with_logprobs(body, values=(-0.1, -0.3)):
    made = obedient(body)
    if body.get("logprobs"):
        made["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": value} for value in values]}
    return made


def test_log_probabilities_are_asked_for_and_averaged_over_the_tokens():
    with ChatServerDouble(with_logprobs) as double:
        _, (stated, plain) = ask(double, replace(REQUEST, logprobs=True), REQUEST)
    assert stated.logprob == pytest.approx(-0.2) and plain.logprob is None
    assert sum(body.get("logprobs", False) for body in double.requests) == 1


@pytest.mark.parametrize("values", [(), (-0.1, None), (0.5,), (float("-inf"),), (float("nan"),)])
def test_broken_log_probabilities_are_none_instead_of_a_number(values):
    body = with_logprobs({"messages": [{"content": "u"}], "logprobs": True}, values)
    assert read_completion(body).text == "fine" and read_completion(body).logprob is None


def test_a_server_that_rejects_log_probabilities_is_asked_without():
    def picky(body):
        return (400, {"error": {"message": "logprobs not supported"}}) if "logprobs" in body else obedient(body)

    async def run(double):
        async with ChatServer(double.endpoint, wait=1) as server:
            return [await server.chat(replace(REQUEST, logprobs=True)) for _ in range(3)]

    with ChatServerDouble(picky) as double:
        replies = asyncio.run(run(double))
    assert [(reply.text, reply.logprob) for reply in replies] == [("fine", None)] * 3
    assert sum("logprobs" in body for body in double.requests) == 1
