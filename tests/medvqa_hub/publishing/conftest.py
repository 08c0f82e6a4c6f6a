"""A loopback Hub for each test, and this process's client let through to it."""

import pytest
from builds import Build, build_release
from hub_server import HubDouble
from huggingface_hub import HfApi, constants

from medvqa_hub.publishing import hub_calls


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # the suite's guard keeps the network out
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(hub_calls, "WAITS", (0.0, 0.0))
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the client waits between its own tries
    with HubDouble() as double:
        yield double


@pytest.fixture
def api(hub) -> HfApi:
    return HfApi(endpoint=hub.endpoint, token=hub.token)


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Build:
    """A release of 24 drawn studies."""
    return build_release(tmp_path_factory.mktemp("built"), studies=24, seed=1)
