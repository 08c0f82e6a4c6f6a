"""Answering on Ray with an engine that replies from the request, as a program: tests start it, and kill it."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

from scripted_engine import ScriptedEngine

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.ray_workers import RayEngine
from mimic_cxr_vqa.generation import answers
from mimic_cxr_vqa.workspace import Workspace


class Slow(ScriptedEngine):
    """Takes a while, tells where it works, and fails as its number says."""

    in_flight = 2

    def __init__(self, number: int, folder: Path, trouble: str) -> None:
        super().__init__(model=f"m{number}" if trouble == "differ" else "m")
        if trouble == "broken":
            raise ConfigError("no model here")
        self.trouble = trouble
        with open(folder / f"pids-{number}", "a") as file:
            file.write(f"{os.getpid()}\n")

    async def answer(self, requests):
        await asyncio.sleep(0.1)
        if self.trouble == "input":
            raise InputError("the study cannot be used")
        return [Reply(f"Answer to {request.qa_id}.") for request in requests]


def kill_a_worker(folder: Path) -> None:
    while not (folder / "answers.jsonl").exists() or (folder / "answers.jsonl").read_bytes().count(b"\n") < 3:
        time.sleep(0.02)
    os.kill(int((folder / "pids-0").read_text()), signal.SIGKILL)


def main(folder: str, trouble: str) -> None:
    root, answers.STUDIES_PER_SYNC = Path(folder), 2
    if trouble == "kill":
        threading.Thread(target=kill_a_worker, args=(root,), daemon=True).start()
    try:
        with RayEngine(lambda number: Slow(number, root, trouble), "local", 2, Governance.CREDENTIALED) as engine:
            print("go", flush=True)
            if trouble == "stranger":
                import ray

                print(ray.get_runtime_context().gcs_address, flush=True)
                sys.stdin.read()
            print(dict(answers.answer_questions(Workspace(root), engine)), flush=True)
    except ConfigError as error:
        print(error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
