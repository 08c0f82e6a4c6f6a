"""`evaluate cxr --engine` on a loopback server: a study's questions together against the same questions in any order.

The server is another process and computes nothing: a request costs QUESTION_SECONDS, and IMAGE_SECONDS more where its
images are not among those of the last CACHED studies, as a server with an image cache would. Both ways keep SLOTS
requests in flight. Ours asks all 10,000 questions of 500 studies; the baseline asks a tenth of them, in random order,
each with its images encoded anew, as harnesses do that know rows alone.

Printed: questions a second of both and their ratio; the share of slot time in which the server had a request (target
95%); image encodings a study (target 1); what the client's memory grew by over the last four fifths (target 32 MiB).

Run: python benchmarks/asking_models.py
"""

import asyncio
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections import Counter, OrderedDict
from pathlib import Path

import aiohttp
import numpy as np
from PIL import Image
from timing import write_result

from medvqa_core.governance import Governance
from medvqa_core.llm.connecting import connect_model
from medvqa_core.llm.server import ChatServer
from medvqa_hub.evaluation.cxr.engine_inference import ChatReader, ask_studies
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from medvqa_hub.evaluation.cxr.studies import Study

STUDIES, QUESTIONS = 500, 20
SLOTS, CACHED = 16, 32
QUESTION_SECONDS, IMAGE_SECONDS = 0.1, 0.4
BASELINE_QUESTIONS = 1_000
TARGET_BUSY, TARGET_MIB = 0.95, 32


def serve(port: multiprocessing.Queue) -> None:
    """A server that waits instead of computing, and counts what it did."""
    from aiohttp import web

    seen: OrderedDict[str, None] = OrderedDict()
    done = {"requests": 0, "encodings": 0, "busy": 0.0}

    async def chat(request: web.Request) -> web.Response:
        start = time.perf_counter()
        content = (await request.json())["messages"][-1]["content"]
        cost = QUESTION_SECONDS
        if isinstance(content, list):
            images = "".join(part["image_url"]["url"] for part in content[:-1])
            if images not in seen:
                cost += IMAGE_SECONDS
                done["encodings"] += 1
            seen[images] = None
            seen.move_to_end(images)
            if len(seen) > CACHED:
                seen.popitem(last=False)
            done["requests"] += 1
        await asyncio.sleep(cost)
        done["busy"] += time.perf_counter() - start
        message = {"role": "assistant", "content": "No."}
        return web.json_response({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "waits", "owned_by": "benchmark"}]})

    async def counts(_: web.Request) -> web.Response:
        said = dict(done)
        done.update(requests=0, encodings=0, busy=0.0)
        seen.clear()
        return web.json_response(said)

    async def run() -> None:
        app = web.Application(client_max_size=2**26)
        app.add_routes([web.post("/v1/chat/completions", chat), web.get("/v1/models", models)])
        app.add_routes([web.get("/counts", counts)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port.put(site._server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    asyncio.run(run())


def draw_studies(folder: Path) -> list[Study]:
    """Studies of two images each, no two alike."""
    rng = np.random.default_rng(0)
    studies = []
    for number in range(STUDIES):
        paths = tuple(folder / f"{number}-{view}.png" for view in ("PA", "LATERAL"))
        for path in paths:
            Image.fromarray(rng.integers(0, 255, (96, 96), dtype=np.uint8)).save(path)
        rows = tuple({"qa_id": f"s{number}-{n}", "question": f"Is finding {n} seen?"} for n in range(QUESTIONS))
        studies.append(Study(number, number, "test", paths, ("PA", "LATERAL"), rows))
    return studies


async def fetch_counts(address: str) -> dict:
    async with aiohttp.ClientSession() as session, session.get(f"{address}/counts") as response:
        return await response.json()


async def ask_in_any_order(studies: list[Study], model: ChatServer) -> None:
    """Questions in random order, SLOTS at once, each request with its images encoded for it."""
    prompt = StudyPrompt()
    pairs = [(study, row) for study in studies for row in study.rows]
    todo = iter(random.Random(0).sample(pairs, BASELINE_QUESTIONS))

    async def work() -> None:
        for study, row in todo:
            async with model.session() as session:
                images = await asyncio.to_thread(prompt.encode, study)
                reply = await session.chat(prompt.request(study, images, row))
                assert reply.text == "No.", reply

    async with model:
        await asyncio.gather(*(work() for _ in range(SLOTS)))


def resident_mib() -> float:
    fields = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) / 1024


def main() -> None:
    port: multiprocessing.Queue = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    address = f"http://127.0.0.1:{port.get(timeout=60)}"
    with tempfile.TemporaryDirectory() as folder:
        studies = draw_studies(Path(folder))
        model = connect_model(f"server:{address}/v1", Governance.OPEN, slots=SLOTS)
        asyncio.run(fetch_counts(address))  # sets them to 0

        start = time.perf_counter()
        asyncio.run(ask_in_any_order(studies, model))
        baseline = {"seconds": time.perf_counter() - start, **asyncio.run(fetch_counts(address))}

        encodings: Counter = Counter()
        encode = StudyPrompt.encode

        def counted(self: StudyPrompt, study: Study):
            encodings[study.study_id] += 1
            return encode(self, study)

        StudyPrompt.encode = counted  # type: ignore[method-assign]
        memory: list[tuple[float, float]] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.5):
                memory.append((time.perf_counter(), resident_mib()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        reader = ChatReader(model, StudyPrompt())
        ask_studies(reader, studies, Path(folder) / "predictions.jsonl", Governance.OPEN)
        seconds = time.perf_counter() - start
        stop.set()
        watcher.join()
        ours = {"seconds": seconds, **asyncio.run(fetch_counts(address))}
    server.terminate()
    later = [mib for at, mib in memory if at > start + seconds / 5]
    record = {
        "questions": ours["requests"],
        "questions_per_second": round(ours["requests"] / seconds, 1),
        "baseline_questions": baseline["requests"],
        "baseline_questions_per_second": round(baseline["requests"] / baseline["seconds"], 1),
        "slots_busy": round(ours["busy"] / (SLOTS * seconds), 3),
        "client_encodings_a_study": max(encodings.values()),
        "server_encodings_a_study": round(ours["encodings"] / STUDIES, 3),
        "baseline_server_encodings_a_question": round(baseline["encodings"] / baseline["requests"], 3),
        "memory_growth_mib": round(max(later) - later[0], 1),
        "memory_mib": round(max(later), 1),
    }
    record["ratio"] = round(record["questions_per_second"] / record["baseline_questions_per_second"], 2)
    print(
        f"{record['questions']:,} questions: {record['questions_per_second']}/s, in any order "
        f"{record['baseline_questions_per_second']}/s = {record['ratio']}x; slots busy {record['slots_busy']:.1%} "
        f"(target {TARGET_BUSY:.0%}); encodings a study: {record['client_encodings_a_study']} here, "
        f"{record['server_encodings_a_study']} there (target 1); memory grew by {record['memory_growth_mib']} MiB of "
        f"{record['memory_mib']} (target {TARGET_MIB})"
    )
    write_result("asking_models", record)
    reached = record["slots_busy"] >= TARGET_BUSY and record["memory_growth_mib"] <= TARGET_MIB
    reached = reached and record["client_encodings_a_study"] == 1 == record["server_encodings_a_study"]
    print("reached" if reached else "NOT reached")
    sys.exit(not reached)


if __name__ == "__main__":
    main()
