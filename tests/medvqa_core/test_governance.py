"""Governance classes: their order, that none is lowered, and that credentialed text stays on this machine."""

from itertools import product
from types import SimpleNamespace

import pytest
from datasets import Dataset

from medvqa_core.addresses import is_loopback_peer
from medvqa_core.dataset_class import describe_dataset, get_dataset_governance
from medvqa_core.errors import GovernanceError, MedvqaError, one_line
from medvqa_core.governance import (
    Governance,
    check_endpoint_allowed,
    check_not_lowered,
    check_publishable,
    parse,
    strictest,
)

OPEN, SHARE_ALIKE, CREDENTIALED = Governance.OPEN, Governance.SHARE_ALIKE, Governance.CREDENTIALED
NO_DERIVATIVES = Governance.NO_DERIVATIVES

PAIRS = list(product(Governance, Governance))

LOOPBACK = [
    "http://127.0.0.1:8000/v1",
    "https://127.8.9.1",
    "http://localhost:11434",
    "http://LocalHost/v1",
    "http://[::1]:8000",
    "http://user:secret@localhost:8000",
]
ELSEWHERE = [
    "http://10.0.0.1:8000",
    "http://192.168.1.7/v1",
    "https://api.example.com/v1",
    "http://[2001:db8::1]:80",
    "http://0.0.0.0:8000",  # every interface, not this machine alone
    "http://localhost.example.com",  # names that only look local
    "http://127.0.0.1.example.com",
    "http://localhost-example.com",
    "http://127.0.0.1@evil.com",  # a user name that looks like a host
    "http://localhost:8000@evil.com/",
    "http://evil.com#@127.0.0.1",
    "http://evil.com?@localhost",
    "http://evil.com/@localhost",
    "http://evil.com\\@127.0.0.1/",  # urllib3 takes evil.com for the host, urllib the address
    "http://127.0.0.1\t.evil.com",
    "http://127.1",  # resolvers read it as 127.0.0.1; we do not guess
    "http://2130706433",
    "http://0x7f000001",
    "http://0x7f.0.0.1",
    "http://0177.0.0.1",
    "http://127.0.0.01",
    "http://127.0.0.256",
    "http://127.0.0.1.nip.io",
    "http://localtest.me",
    "http://localhost.",
    "http://127.0.0.1.",
    "http://[::1].evil.com",  # urllib reads [::1], and leaves out what follows
    "http://[::1]evil.com",
    "http://[::1]:80.evil.com",
    "http://[::1]@evil.com",
    "http://[::1%25eth0]",
    "http://[::ffff:127.0.0.1]",
    "http://[::ffff:10.0.0.1]",
    "http://[0:0:0:0:0:0:0:2]",
    "http://[::]",
    "http://0",
    "http://a@b@localhost",
    "http://127.0.0.1:80:80",
    "http://127.0.0.1:80@evil.com:80/",
    "http://localhost%2eevil.com",
    "http://localhost%00.evil.com",
    "http://localhost\uff0eevil.com",  # a full-width stop
    "http://\u2460\u2461\u2466.0.0.1",  # digits in circles become 127 in some clients
    "http://127.0.0.1 .evil.com",
    "http://127.0.0.1\r\nHost: evil.com",
    "http:///localhost",
    "http:localhost",
    "//localhost",
    "ftp://localhost",
    "http+unix://localhost",
    " http://localhost",
]
UNREADABLE = [
    "",
    "http://",
    "127.0.0.1:8000",
    "localhost",
    "http://[::1",
    "http://[127.0.0.1]x",
    "unix:///run/llm.sock",
]


def test_classes_are_ordered_from_open_to_credentialed():
    assert [c.level for c in (OPEN, SHARE_ALIKE, NO_DERIVATIVES, CREDENTIALED)] == [0, 1, 2, 3]
    assert [str(c) for c in Governance] == ["open", "share-alike", "no-derivatives", "credentialed"]


@pytest.mark.parametrize("value", ["", "Open", "public", "open ", "credentialled", None, 0, [], {}])
def test_an_unknown_class_is_an_error_and_never_open(value):
    with pytest.raises(GovernanceError, match="manifest.json.*open, share-alike, no-derivatives, credentialed"):
        parse(value, "manifest.json")


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_strictest_is_the_higher_of_two(left, right):
    assert strictest([left, right]) is (left if left.level >= right.level else right)


def test_nothing_known_is_credentialed():
    assert strictest([]) is CREDENTIALED


@pytest.mark.parametrize(("current", "wanted"), PAIRS)
def test_a_class_is_raised_or_kept_never_lowered(current, wanted):
    if wanted.level >= current.level:
        assert check_not_lowered(current, wanted, "answers.jsonl") is wanted
        return
    with pytest.raises(GovernanceError, match=f"answers.jsonl.*{current}.*{wanted}"):
        check_not_lowered(current, wanted, "answers.jsonl")


@pytest.mark.parametrize("endpoint", [None, *LOOPBACK])
def test_credentialed_text_goes_to_this_machine(endpoint):
    check_endpoint_allowed(CREDENTIALED, endpoint, "engine x")


@pytest.mark.parametrize("endpoint", [*ELSEWHERE, *UNREADABLE])
def test_credentialed_text_goes_nowhere_else(endpoint):
    with pytest.raises(GovernanceError, match="engine x .*127.0.0.1, localhost"):
        check_endpoint_allowed(CREDENTIALED, endpoint, "engine x")


def test_the_message_names_the_host_and_no_password():
    with pytest.raises(GovernanceError, match="to api.example.com:") as caught:
        check_endpoint_allowed(CREDENTIALED, "https://me:secret@api.example.com/v1?key=secret", "engine x")
    assert "secret" not in str(caught.value)


def test_a_localhost_that_leads_elsewhere_is_elsewhere(monkeypatch):
    found = [(None, None, None, "", ("127.0.0.1", 0)), (None, None, None, "", ("10.0.0.7", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_args, **_kwargs: found)
    with pytest.raises(GovernanceError, match="to localhost:8000:"):
        check_endpoint_allowed(CREDENTIALED, "http://localhost:8000", "engine x")
    monkeypatch.setattr("socket.getaddrinfo", lambda *_args, **_kwargs: found[:1])
    check_endpoint_allowed(CREDENTIALED, "http://localhost:8000", "engine x")

    def nothing(*_args, **_kwargs):
        raise OSError("no such name")

    monkeypatch.setattr("socket.getaddrinfo", nothing)
    with pytest.raises(GovernanceError):
        check_endpoint_allowed(CREDENTIALED, "http://localhost:8000", "engine x")


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "no_proxy"])
def test_proxy_variables_change_no_decision(monkeypatch, variable):
    monkeypatch.setenv(variable, "http://127.0.0.1:3128")
    with pytest.raises(GovernanceError):
        check_endpoint_allowed(CREDENTIALED, "http://10.0.0.1:8000", "engine x")
    monkeypatch.setenv(variable, "http://10.0.0.1:3128")
    check_endpoint_allowed(CREDENTIALED, "http://127.0.0.1:8000", "engine x")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1"])
def test_a_connection_to_this_machine(address):
    assert is_loopback_peer(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "0.0.0.0", "::", "fe80::1%eth0", "", "localhost", "::ffff:10.0.0.1"])
def test_a_connection_to_another_machine(address):
    assert not is_loopback_peer(address)


@pytest.mark.parametrize("governance", [NO_DERIVATIVES, CREDENTIALED])
def test_what_is_restricted_is_not_published(governance):
    with pytest.raises(GovernanceError, match=f"these rows.*{governance}.*the Hub"):
        check_publishable(governance, "these rows", "the Hub")


@pytest.mark.parametrize("governance", [OPEN, SHARE_ALIKE])
def test_other_content_is_published(governance):
    check_publishable(governance, "these rows", "the Hub")


@pytest.mark.parametrize("governance", [OPEN, SHARE_ALIKE, NO_DERIVATIVES])
@pytest.mark.parametrize("endpoint", [None, *LOOPBACK, *ELSEWHERE, *UNREADABLE])
def test_other_text_may_go_anywhere(governance, endpoint):
    check_endpoint_allowed(governance, endpoint, "engine x")


@pytest.mark.parametrize("governance", Governance)
def test_a_dataset_carries_its_class_in_its_description(governance):
    dataset = Dataset.from_dict({"question": ["Is there edema?"]})
    dataset.info.description = describe_dataset("rows of /data\nwith a line break", governance)
    assert get_dataset_governance(dataset) is governance


@pytest.mark.parametrize("description", [None, "", "someone's dataset", "not a governance class: open"])
def test_a_dataset_that_does_not_say_is_credentialed(description):
    assert get_dataset_governance(SimpleNamespace(info=SimpleNamespace(description=description))) is CREDENTIALED


def test_an_error_prints_as_one_line():
    assert one_line(MedvqaError("first\n  second\tthird\r\n")) == "first second third"
    assert one_line(MedvqaError()) == "MedvqaError"
