"""Governance classes: their order, that none is lowered, and that credentialed text stays on this machine."""

from itertools import product
from types import SimpleNamespace

import pytest

from medvqa_core.errors import GovernanceError, MedvqaError, one_line
from medvqa_core.governance import (
    Governance,
    describe_dataset,
    governance_of_dataset,
    parse,
    refuse_lowering,
    refuse_remote,
    strictest,
)

OPEN, SHARE_ALIKE, CREDENTIALED = Governance.OPEN, Governance.SHARE_ALIKE, Governance.CREDENTIALED

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
    assert [c.level for c in (OPEN, SHARE_ALIKE, CREDENTIALED)] == [0, 1, 2]
    assert [str(c) for c in Governance] == ["open", "share-alike", "credentialed"]


@pytest.mark.parametrize("name", ["open", "share-alike", "credentialed"])
def test_parse_reads_each_name(name):
    assert str(parse(name, "manifest.json")) == name


@pytest.mark.parametrize("value", ["", "Open", "public", "open ", "credentialled", None, 0, [], {}])
def test_an_unknown_class_is_an_error_and_never_open(value):
    with pytest.raises(GovernanceError, match="manifest.json.*allowed: open, share-alike, credentialed"):
        parse(value, "manifest.json")


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_strictest_is_the_higher_of_two(left, right):
    assert strictest([left, right]) is (left if left.level >= right.level else right)


def test_nothing_known_is_credentialed():
    assert strictest([]) is CREDENTIALED


@pytest.mark.parametrize(("current", "wanted"), PAIRS)
def test_a_class_is_raised_or_kept_never_lowered(current, wanted):
    if wanted.level >= current.level:
        assert refuse_lowering(current, wanted, "answers.jsonl") is wanted
        return
    with pytest.raises(GovernanceError, match=f"answers.jsonl is {current} and cannot become {wanted}"):
        refuse_lowering(current, wanted, "answers.jsonl")


@pytest.mark.parametrize("endpoint", [None, *LOOPBACK])
def test_credentialed_text_goes_to_this_machine(endpoint):
    refuse_remote(CREDENTIALED, endpoint, "engine x")


@pytest.mark.parametrize("endpoint", [*ELSEWHERE, *UNREADABLE])
def test_credentialed_text_goes_nowhere_else(endpoint):
    with pytest.raises(GovernanceError, match="engine x would send credentialed text .*127.0.0.1, localhost or"):
        refuse_remote(CREDENTIALED, endpoint, "engine x")


def test_the_message_names_the_host_and_no_password():
    with pytest.raises(GovernanceError, match="to api.example.com:") as caught:
        refuse_remote(CREDENTIALED, "https://me:secret@api.example.com/v1?key=secret", "engine x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("governance", [OPEN, SHARE_ALIKE])
@pytest.mark.parametrize("endpoint", [None, *LOOPBACK, *ELSEWHERE, *UNREADABLE])
def test_other_text_may_go_anywhere(governance, endpoint):
    refuse_remote(governance, endpoint, "engine x")


@pytest.mark.parametrize("governance", Governance)
def test_a_dataset_carries_its_class_in_its_description(governance):
    description = describe_dataset("rows of /data\nwith a line break", governance)
    assert governance_of_dataset(SimpleNamespace(info=SimpleNamespace(description=description))) is governance


@pytest.mark.parametrize("description", [None, "", "someone's dataset", "not a governance class: open"])
def test_a_dataset_that_does_not_say_is_credentialed(description):
    assert governance_of_dataset(SimpleNamespace(info=SimpleNamespace(description=description))) is CREDENTIALED


def test_an_error_prints_as_one_line():
    assert one_line(MedvqaError("first\n  second\tthird\r\n")) == "first second third"
    assert one_line(MedvqaError()) == "MedvqaError"
