"""Shared ground of the tests: offline, with a Hugging Face cache of their own, and no network.

The environment is set when this file is imported, which is before any test module imports `datasets`.
"""

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from paths import REAL_DATA

_HF_HOME = tempfile.mkdtemp(prefix="medvqa-tests-")
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HOME=_HF_HOME)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the test processes share the cores
_OURS = ("HF_DATASETS_CACHE", "HF_HUB_CACHE", "HF_MODULES_CACHE", "MIMIC_CXR_VQA_DIR", "MIMIC_CXR_JPG_ROOT")
_PROXIES = (
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)  # one may be on loopback
for name in (*_OURS, *_PROXIES):
    os.environ.pop(name, None)

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with it ignored

# No deadline: a slow machine is no defect. The same examples every time, so that a failure is the change's.
settings.register_profile("suite", deadline=None, derandomize=True, database=None)
settings.load_profile("suite")


class NetworkError(AssertionError):
    """A test tried to leave this machine."""


def _is_local(host: object) -> bool:
    return host in (None, "", "localhost", "::1", "0.0.0.0", b"localhost") or str(host).startswith("127.")


def _guard_addresses(method):
    def guarded(self, address, *args):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address[0]):
            raise NetworkError(f"tests must not use the network, this one connects to {address[0]}")
        return method(self, address, *args)

    return guarded


def _guard_names(lookup):
    def guarded(host, *args, **kwargs):
        if not _is_local(host):
            raise NetworkError(f"tests must not use the network, this one looks up {host}")
        return lookup(host, *args, **kwargs)

    return guarded


socket.socket.connect = _guard_addresses(socket.socket.connect)
socket.socket.connect_ex = _guard_addresses(socket.socket.connect_ex)
socket.getaddrinfo = _guard_names(socket.getaddrinfo)


def pytest_unconfigure() -> None:
    shutil.rmtree(_HF_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real data; it is never part of the repository."""
    folder = REAL_DATA
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set MEDVQA_REAL_DATA to its folder")
    return folder
