"""Which model `--engine` names, and what credentialed texts may be sent to."""

import json

import pytest
from chat_server import ChatServerDouble, completion, connect_to, is_probe

from medvqa_core.errors import ConfigError, GovernanceError, InputError, MedvqaError
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_core.llm.connecting import connect_model, get_engines_governance
from medvqa_core.llm.options import EngineOptions
from medvqa_core.llm.record import FILE, ModelRecord

ATTESTATION = """\
person: Jane Doe
hosts: ["http://127.0.0.1:{port}"]
agreement: PhysioNet DUA 1.5.0
third_parties: false
zero_retention: true
"""


def test_credentialed_texts_go_to_a_server_that_the_user_runs_and_to_no_forwarded_model():
    with ChatServerDouble(lambda body: completion("{}"), models=("gpt-oss:120b-cloud",)) as double:
        with pytest.raises(GovernanceError, match="--i-run-this-server"):
            connect_to(double, Governance.CREDENTIALED)
        assert not double.requests
        with pytest.raises(GovernanceError, match="cloud"):
            connect_to(double, Governance.CREDENTIALED, i_run_this_server=True)
        assert not [body for body in double.requests if not is_probe(body)]
    with pytest.raises(GovernanceError, match="would send credentialed text"):
        connect_to("server:http://203.0.113.7/v1", Governance.CREDENTIALED, i_run_this_server=True)


@pytest.mark.parametrize(
    "name", ["gpt-oss:120b-cloud", "GPT-OSS:120B-Cloud ", "deepseek-v3.1:671b-cloud", "kimi:cloud"]
)
def test_forwarded_models_are_refused_before_anything_is_sent(name):
    with ChatServerDouble(lambda body: completion("{}")) as double:
        with pytest.raises(GovernanceError, match="cloud"):
            connect_to(double, Governance.CREDENTIALED, model=name, i_run_this_server=True)
        assert not double.requests
        connect_to(double, Governance.OPEN, model=name)


def test_a_redirect_or_a_proxy_takes_no_text_along(monkeypatch):
    """A server that sends its callers elsewhere gets no second request, and proxy variables are not read."""
    elsewhere = ChatServerDouble(lambda body: completion("{}"))
    with elsewhere, ChatServerDouble(lambda body: (307, None)) as double:
        monkeypatch.setenv("http_proxy", elsewhere.endpoint.removesuffix("/v1"))
        monkeypatch.setenv("ALL_PROXY", elsewhere.endpoint.removesuffix("/v1"))
        double.reply = lambda body: (307, "{}")
        with pytest.raises(MedvqaError, match="status 307"):
            connect_to(double, Governance.CREDENTIALED, model="m", i_run_this_server=True, wait="1s")
        assert double.requests and not elsewhere.requests


def test_the_user_s_word_for_a_server_is_asked_once_for_an_address_and_a_model(tmp_path):
    path = tmp_path / FILE
    with ChatServerDouble(lambda body: completion("{}"), models=("a",)) as double:
        engine = f"server:{double.endpoint}"
        with pytest.raises(GovernanceError, match="--i-run-this-server"):
            connect_to(engine, Governance.CREDENTIALED, path)
        assert not path.exists()
        connect_to(engine, Governance.CREDENTIALED, path, i_run_this_server=True)
        before = path.read_bytes()
        connect_to(engine, Governance.CREDENTIALED, path)
        assert path.read_bytes() == before and path.stat().st_mode & 0o077 == 0
        (entry,) = ModelRecord(path).entries
        assert entry["address"] == double.endpoint.split("/")[2] and entry["own_server"] and entry["model"] == "a"
        assert entry["governance"] == "credentialed" and entry["schema"] == "ignored" and len(entry["date"]) == 10
        double.models = ("b",)  # another model at the same address: asked again
        with pytest.raises(GovernanceError, match="--i-run-this-server"):
            connect_to(engine, Governance.CREDENTIALED, path)


def test_what_was_said_of_open_texts_or_by_a_broken_file_counts_for_nothing(tmp_path):
    path = tmp_path / FILE
    with ChatServerDouble(lambda body: completion("{}")) as double:
        engine = f"server:{double.endpoint}"
        connect_to(engine, Governance.OPEN, path, i_run_this_server=True)
        with pytest.raises(GovernanceError, match="--i-run-this-server"):
            connect_to(engine, Governance.CREDENTIALED, path)
    path.write_text('{"entries": 3}')
    with pytest.raises(InputError, match="list of entries"):
        connect_to(engine, Governance.OPEN, path)


def test_an_attestation_is_kept_by_its_digest(tmp_path):
    with ChatServerDouble(lambda body: completion("{}")) as double:
        said = tmp_path / "attestation.yaml"
        said.write_text(ATTESTATION.format(port=double.port))
        model = connect_to(double, Governance.CREDENTIALED, tmp_path / FILE, attestation=said)
        assert model.attestation.person == "Jane Doe"
        (entry,) = ModelRecord(tmp_path / FILE).entries
        assert entry["attestation"] == model.attestation.digest and entry["own_server"] is False
        said.write_text(ATTESTATION.format(port=1))
        with pytest.raises(GovernanceError, match="--i-run-this-server"):
            connect_to(double, Governance.CREDENTIALED, attestation=said)


def test_another_spelling_is_named():
    for engines in (("vllm:x",), ("server:http://a", "transformers:b"), ("server:http://a", "server:http://a")):
        assert EngineOptions(engines).is_language_model
        with pytest.raises(ConfigError, match="server:URL or transformers:FOLDER_OR_ID"):
            connect_model(EngineOptions(engines), Governance.OPEN)
    with pytest.raises(ConfigError, match="--load-in 4bit"):
        connect_to("server:http://a", Governance.OPEN, load_in="4bit")


@pytest.mark.parametrize("text, seconds", [("90s", 90), ("10m", 600), ("1.5h", 5400), ("600", 600), (" 5m ", 300)])
def test_times_have_units(text, seconds):
    assert EngineOptions(wait=text).seconds_to_wait == seconds


@pytest.mark.parametrize("text", ["", "m", "10 min", "-5s", "1e3", "٣s"])
def test_what_is_no_time(text):
    with pytest.raises(ConfigError, match="90s, 10m or 2h"):
        _ = EngineOptions(wait=text).seconds_to_wait


def test_options_of_models_with_another_engine():
    EngineOptions(("rules",)).check_unused("rules", retry_failed=False, out=None)
    with pytest.raises(ConfigError, match="--model, --load-in, --out .*'rules'"):
        EngineOptions(model="x", load_in="4bit").check_unused("rules", out="x")


def test_a_word_in_a_file_that_others_could_have_written_is_asked_again(tmp_path):
    """Unpacked or cloned folders bring files of mode 0644: their word is somebody else's."""
    with ChatServerDouble(lambda body: completion("{}"), models=("a",)) as double:
        engine, path = f"server:{double.endpoint}", tmp_path / FILE
        connect_to(engine, Governance.CREDENTIALED, path, i_run_this_server=True)
        connect_to(engine, Governance.OPEN, path)
        assert path.stat().st_mode & 0o077 == 0
        connect_to(engine, Governance.CREDENTIALED, path)
        path.chmod(0o644)
        with pytest.raises(GovernanceError, match="--i-run-this-server"):
            connect_to(engine, Governance.CREDENTIALED, path)


@pytest.mark.parametrize("place", ["model", "base"])
def test_what_learned_of_stricter_texts_writes_nothing_of_a_weaker_class(place, tmp_path):
    for name in ("model", "base"):
        (tmp_path / name).mkdir()
    adapter = {"peft_type": "LORA", "base_model_name_or_path": str(tmp_path / "base")}
    (tmp_path / "model" / "adapter_config.json").write_text(json.dumps(adapter))
    write_governance(tmp_path / "model", Governance.OPEN)
    write_governance(tmp_path / place, Governance.CREDENTIALED)
    engine = f"transformers:{tmp_path / 'model'}"
    assert get_engines_governance([engine]) is Governance.CREDENTIALED
    with pytest.raises(GovernanceError, match="never lowered"):
        connect_to(engine, Governance.SHARE_ALIKE)
    with pytest.raises(ConfigError, match="cannot be loaded"):  # let through, and there is nothing in it
        connect_to(engine, Governance.CREDENTIALED)


@pytest.mark.parametrize("more", [{"peft_type": "PROMPT_TUNING"}, {"peft_type": "LORA", "megatron_config": {"a": 1}}])
def test_adapters_that_would_be_left_out_or_import_code_are_refused(more, tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "/nowhere", **more}))
    with pytest.raises(ConfigError, match="Only LoRA adapters without megatron_config"):
        connect_to(f"transformers:{tmp_path}")


def test_the_key_comes_from_the_environment_and_the_default_one_is_not_sent_in_the_clear(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-default")
    monkeypatch.setenv("MY_KEY", "sk-mine")
    default, named = EngineOptions(), EngineOptions(api_key_env="MY_KEY")
    assert default.read_api_key("https://api.example.org/v1") == "sk-default"
    assert default.read_api_key("http://127.0.0.1:1/v1") == "sk-default"
    assert default.read_api_key("http://api.example.org/v1") is None
    assert named.read_api_key("http://api.example.org/v1") == "sk-mine"
    with pytest.raises(ConfigError, match="--api-key-env OTHER"):
        EngineOptions(api_key_env="OTHER").read_api_key("https://api.example.org/v1")


def test_a_server_with_a_key_is_used_and_the_key_is_not_recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-default")
    with ChatServerDouble(lambda body: completion("{}"), key="sk-default") as double:
        connect_to(double, Governance.OPEN, tmp_path / FILE)
        assert double.requests and "sk-default" not in (tmp_path / FILE).read_text()


def test_capabilities_are_remembered_beside_the_answers(tmp_path):
    """A resumed run does not take a server that has a bad moment for one without schemas."""
    faults = []

    def reply(body):
        return faults.pop() if faults and "response_format" in body else completion('{"number": 4}')

    with ChatServerDouble(reply) as double:
        first = connect_to(double, record=tmp_path / FILE).revision
        faults = [(500, {})] * 3
        again = connect_to(double, record=tmp_path / FILE)
        assert again.revision == first == "double, schema enforced" and not faults
        faults = [(500, {})] * 3
        assert connect_to(double).revision == "double, schema enforced by json_object"
