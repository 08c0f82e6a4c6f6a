"""A push that is killed at ten moments: nothing is seen too early, and the same command ends what was begun."""

import os
import signal
import subprocess
import sys

import pytest

from medvqa_core.governance import Governance
from medvqa_hub.publishing.push import MODEL, PushPlan, push_folder
from medvqa_hub.publishing.staging import MARK, staged

NAME, MOMENTS = "me/model", 10
FILES = {"README.md": b"---\nlicense: apache-2.0\n---\n", "a.safetensors": b"a" * 9000, "b.safetensors": b"b" * 9000}
PLAN = PushPlan(NAME, MODEL, Governance.CREDENTIALED, gated=True, public=True)
# One process imports the client and forks a pusher for each pair of lines that it reads: a push in milliseconds.
PUSHER = f"""
import os, sys
from huggingface_hub import HfApi
from huggingface_hub.utils import get_session
from medvqa_core.governance import Governance
from medvqa_hub.publishing.push import MODEL, PushPlan, push_folder
from medvqa_hub.publishing.staging import staged
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        print(os.getpid(), flush=True)
        sys.stdin.readline()
        with staged({FILES!r}, MODEL, Governance.CREDENTIALED) as folder:
            push_folder(folder, PushPlan({NAME!r}, MODEL, Governance.CREDENTIALED, True, True), log=lambda line: None)
        os._exit(0)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture
def pusher(hub):
    environment = {
        **os.environ, "HF_ENDPOINT": hub.endpoint, "HF_TOKEN": hub.token, "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
    }  # fmt: skip
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-u", "-c", PUSHER], env=environment, text=True, **pipes)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.stdin.close()
    process.wait(timeout=30)


def push_and_kill(pusher, hub, moment: int) -> int:
    """Let a process push, and kill it when its request number `moment` arrives; its exit code."""
    pusher.stdin.write("\n\n")
    pusher.stdin.flush()
    pid = int(pusher.stdout.readline())
    hub.requests.clear()
    hub.on_request = lambda number, *_: os.kill(pid, signal.SIGKILL) if number == moment else None
    code = int(pusher.stdout.readline().split()[1])
    hub.on_request = lambda *_: None
    return code


@pytest.mark.slow
def test_a_push_that_is_killed_anywhere_goes_on(hub, api, pusher):
    with staged(FILES, MODEL, Governance.CREDENTIALED) as folder:
        push_folder(folder, PLAN, api, lambda line: None)
    asked = len(hub.requests)
    hub.repositories.clear()
    states = set()
    for moment in [1 + number * (asked - 1) // (MOMENTS - 1) for number in range(MOMENTS)]:
        hub.objects.clear()
        hub.arriving.clear()
        assert push_and_kill(pusher, hub, moment) == -signal.SIGKILL
        repository = hub.repositories.get((MODEL, NAME))
        if repository is not None and repository.visibility == "public":
            assert repository.gated == "manual" and list(repository.tags) == ["v1.0.0"]
        states.add(
            repository and (repository.gated, len(repository.commits), len(repository.tags), repository.visibility)
        )
        with staged(FILES, MODEL, Governance.CREDENTIALED) as folder:
            push_folder(folder, PLAN, api, lambda line: None)
        done = hub.repositories.pop((MODEL, NAME))
        assert set(done.files) == {*FILES, MARK} and len(done.commits) == 2
        assert (done.visibility, done.gated, list(done.tags.values())) == ("public", "manual", [done.head])
    assert len(states) >= 4  # the moments were different ones
