"""Shared by all tests: no network, a throw-away Hugging Face cache, and the place of the real data."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

# Before anything imports datasets or huggingface_hub: they read these once.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="hf-home-")
for variable in ("MIMIC_CXR_VQA_DIR", "MIMIC_CXR_JPG_ROOT", "HF_DATASETS_CACHE"):
    os.environ.pop(variable, None)

REPOSITORY = Path(__file__).parent.parent
_connect = socket.socket.connect


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Connections to other machines fail; sockets of this machine work."""

    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address}")
        return _connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("MEDVQA_REAL_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder} (set MEDVQA_REAL_DATA)")
    return folder
