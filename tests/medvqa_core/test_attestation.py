"""Which addresses a person's attestation lets credentialed texts go to, and which files are none."""

import pytest

from medvqa_core.attestation import read_attestation
from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance, check_endpoint_allowed

WHOLE = """\
person: Jane Doe <jane@hospital.example>
hosts: [llm.hospital.example, "gpu.hospital.example:8443", "http://10.1.2.3:8000", "[2001:db8::7]"]
agreement: PhysioNet DUA 1.5.0, signed on 2026-01-12
third_parties: false
zero_retention: true
"""


@pytest.fixture
def write(tmp_path):
    def _write(text):
        path = tmp_path / "attestation.yaml"
        path.write_text(text)
        return path

    return _write


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://llm.hospital.example/v1",
        "https://LLM.hospital.example:9000/v1",
        "https://gpu.hospital.example:8443/v1",
        "http://10.1.2.3:8000/v1",
        "https://[2001:db8::7]:8000/v1",
    ],
)
def test_named_hosts_are_covered(write, endpoint):
    attestation = read_attestation(write(WHOLE))
    assert attestation.covers(endpoint)
    check_endpoint_allowed(Governance.CREDENTIALED, endpoint, "engine server", attestation)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://llm.hospital.example/v1",  # in clear text
        "https://gpu.hospital.example/v1",  # another port
        "http://10.1.2.3:8001/v1",
        "https://llm.hospital.example.evil.com/v1",
        "https://evil.com/llm.hospital.example",
        "https://llm.hospital.example@evil.com/v1",
        "https://me:secret@llm.hospital.example/v1",
        "https://evil.com#llm.hospital.example",
        "https://llm.hospital.example\\@evil.com/v1",
        "https://llm.hospital.example.:443/v1",
        "https://xllm.hospital.example/v1",
        "http://167838211:8000/v1",  # 10.1.2.3 as one number
        "ftp://llm.hospital.example",
        "llm.hospital.example",
        "",
    ],
)
def test_nothing_else_is(write, endpoint):
    attestation = read_attestation(write(WHOLE))
    assert not attestation.covers(endpoint)
    with pytest.raises(GovernanceError, match="the attestation does not name it"):
        check_endpoint_allowed(Governance.CREDENTIALED, endpoint, "engine server", attestation)


@pytest.mark.parametrize(
    "text, error, match",
    [
        (WHOLE.replace("zero_retention: true", "zero_retention: false"), GovernanceError, "zero_retention: true"),
        (WHOLE.replace("third_parties: false", "third_parties: 0"), GovernanceError, "third_parties: false"),
        (WHOLE.replace("zero_retention: true\n", ""), ConfigError, "zero_retention is missing"),
        (WHOLE.replace("person", "persons"), ConfigError, "did you mean 'person'"),
        (WHOLE.replace("Jane Doe <jane@hospital.example>", "''"), ConfigError, "person is ''"),
        (WHOLE.replace("[llm", "['*.hospital.example', llm"), ConfigError, "hosts is"),
        (WHOLE.replace("[llm", "[https://me@llm.example, llm"), ConfigError, "hosts is"),
        (WHOLE.replace("hosts:", "hosts: []\n#"), ConfigError, r"hosts is \[\]"),
        ("just words", ConfigError, "expected the fields"),
        ("a: [", ConfigError, "cannot be read"),
    ],
)
def test_files_that_attest_nothing(write, text, error, match):
    with pytest.raises(error, match=match):
        read_attestation(write(text))
