"""The client side of `evaluate meddqa --engine server:…`: does it keep a server busy, and what does it cost?

    python benchmarks/meddqa_client.py [--images 512] [--questions 20] [--slots 16]

A server in a process of its own answers after as long as one with an encoder would take: `ENCODE` seconds for an image
that it does not hold (it holds the last 4 x slots), and `ANSWER` a question. It counts how much of the time its slots
were busy and how often it had to encode. The rival of the same run asks question by question, images apart: each one
in its own group, in an order in which an image's questions lie far from each other.

Slots busy: seconds of work over slots x time from the first to the last request.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import tempfile
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from PIL import Image
from timing import write_result

from medvqa_core.governance import Governance
from medvqa_core.llm.connecting import connect_model
from medvqa_core.runs.predictions import FILE
from medvqa_hub.evaluation.meddqa.inference import ImageSet, answer_questions
from rjua_meddqa.inference.language_model import DocumentModel
from rjua_meddqa.inference.questions import DocumentQuestion

ENCODE, ANSWER = 0.6, 0.3  # seconds: an image costs as much as two answers
PAGE = (1100, 1500)  # pixels of the drawn pages


def serve(port: "multiprocessing.Queue", slots: int) -> None:
    """A chat server with simulated costs; `GET /v1/counts` says what it did."""
    from aiohttp import web

    held: OrderedDict[int, None] = OrderedDict()
    counts = {"requests": 0, "encodes": 0, "busy": 0.0, "first": 0.0, "last": 0.0, "most_at_once": 0}
    free, state = asyncio.Semaphore(slots), {"now": 0}

    async def chat(request: web.Request) -> web.Response:
        body = await request.read()
        start = body.find(b"base64,")
        async with free:
            began = time.perf_counter()
            counts["first"] = counts["first"] or began
            state["now"] += 1
            counts["most_at_once"] = max(counts["most_at_once"], state["now"])
            seconds = ANSWER
            if start >= 0:
                image = hash(body[start : body.find(b'"', start)])
                if image not in held:
                    counts["encodes"] += 1
                    seconds += ENCODE
                held[image] = None
                held.move_to_end(image)
                while len(held) > 4 * slots:
                    held.popitem(last=False)
                counts["requests"] += 1
            await asyncio.sleep(seconds)
            counts["last"] = time.perf_counter()
            counts["busy"] += counts["last"] - began if start >= 0 else 0.0
            state["now"] -= 1
        text = json.dumps({"choices": [{"finish_reason": "stop", "message": {"content": "正常"}}]})
        return web.Response(text=text, content_type="application/json")

    async def report(request: web.Request) -> web.Response:
        said = dict(counts)
        counts.update(requests=0, encodes=0, busy=0.0, first=0.0, last=0.0, most_at_once=0)
        held.clear()
        return web.json_response(said)

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "simulated", "owned_by": "benchmark"}]})

    async def run() -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", chat)
        app.router.add_get("/v1/models", models)
        app.router.add_get("/v1/counts", report)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port.put(site._server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    asyncio.run(run())


def draw_pages(folder: Path, number: int) -> list[Path]:
    """Pages of text-like noise, each different."""
    paths = []
    for place in range(number):
        rng = random.Random(place)
        page = Image.new("L", PAGE, 255)
        for row in range(40, PAGE[1] - 40, 30):
            for left in range(60, PAGE[0] - 60, 24):
                if rng.random() < 0.7:
                    page.paste(rng.randrange(120), (left, row, left + 18, row + 18))
        paths.append(folder / f"{place:05}.png")
        page.save(paths[-1])
    return paths


def ask(endpoint: str, rows: list[DocumentQuestion], out: Path, slots: int) -> dict[str, Any]:
    """Ask all of `rows` and say what it took here and what the server saw; memory in MiB, each tenth of the way."""
    model = connect_model(f"server:{endpoint}", Governance.OPEN, slots=slots)
    counts_of(endpoint)
    engine, memory, done = DocumentModel(model), [], threading.Event()

    def watch() -> None:
        while not done.wait(0.25):
            memory.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, cpu = time.perf_counter(), time.process_time()
    try:
        answer_questions(engine, rows, ImageSet(), out / FILE, Governance.OPEN)
    finally:
        done.set()
        watcher.join()
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    server = counts_of(endpoint)
    tenth = max(1, len(memory) // 10)
    return {
        "questions": server["requests"],
        "seconds": round(seconds, 2),
        "questions_per_second": round(server["requests"] / seconds, 1),
        "slots_busy": round(server["busy"] / (slots * (server["last"] - server["first"])), 4),
        "server_encodes_per_image": round(server["encodes"] / len({row.image for row in rows}), 3),
        "client_encodes_per_image": round(engine.encodes / len({row.image for row in rows}), 3),
        "client_cpu_ms_per_question": round(1000 * used / server["requests"], 2),
        "client_memory_mib": [round(memory[place]) for place in range(tenth, len(memory), tenth)],
    }


def counts_of(endpoint: str) -> dict[str, Any]:
    from urllib.request import urlopen

    with urlopen(endpoint + "/counts") as answer:
        return json.load(answer)


def resident() -> float:
    """MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def rows_of(paths: list[Path], questions: int, apart: bool) -> list[DocumentQuestion]:
    """All questions about each page; `apart`: each as a group of its own, an image's questions far from each other."""
    order = [(path, n) for n in range(questions) for path in paths] if apart else None
    order = order or [(path, n) for path in paths for n in range(questions)]
    return [
        DocumentQuestion(
            f"{path.name}-{n}",
            f"{path.name}-{n}" if apart else path.name,
            path,
            f"第{n}项的结果是否异常?",
            "正常",
            "table_nr_qa",
            "single_nr",
            "high",
            True,
        )
        for path, n in order
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--questions", type=int, default=20, help="of each image")
    parser.add_argument("--slots", type=int, default=16)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    server = context.Process(target=serve, args=(port, options.slots), daemon=True)
    server.start()
    endpoint = f"http://127.0.0.1:{port.get(timeout=60)}/v1"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        paths = draw_pages(root, options.images)
        for name in ("ours", "rival"):
            (root / name).mkdir()
        ours = ask(endpoint, rows_of(paths, options.questions, False), root / "ours", options.slots)
        few = rows_of(paths, max(1, options.questions // 10), True)  # a tenth of the questions: it takes long
        rival = ask(endpoint, few, root / "rival", options.slots)
    server.terminate()
    ratio = round(ours["questions_per_second"] / rival["questions_per_second"], 2)
    figures = {"ours": ours, "question_by_question": rival, "questions_per_second_ratio": ratio, **vars(options)}
    print(json.dumps(figures, indent=1, ensure_ascii=False))
    print("written:", write_result("meddqa_client", figures))


if __name__ == "__main__":
    main()
