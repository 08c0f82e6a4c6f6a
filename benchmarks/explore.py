"""The explorer at the size of MIMIC-CXR-VQA: opening, first page, paging, search and memory, on a generated release.

All requests go to a running explorer over HTTP. `first_page` is the time from `open_folders` (verification and index of
the release) to the first page of studies with its first study. The import of gradio is reported apart, and
`processor_seconds` exclude other work on the machine. The baseline in the same run is `datasets`: opening the same
release and reading the same study.

Run: python benchmarks/explore.py [--rows 3200000]
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

from big_release import RARE, write_big_release
from timing import measure_in_child, write_result

FIRST_TARGET, PAGE_TARGET = 2.0, 0.2  # seconds
PAGES = 60


def explore(folder: str, cache: str) -> dict:
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1")
    figures = {}
    started = time.perf_counter()
    import gradio  # noqa: F401 - timed

    from medvqa_hub.explore.opening import open_folders
    from medvqa_hub.explore.server import make_server
    from medvqa_hub.explore.serving import launch

    figures["imports_seconds"] = round(time.perf_counter() - started, 2)
    for name in ("first_page", "first_page_again"):  # again: with cached digests
        started, used = time.perf_counter(), time.process_time()
        opened = open_folders([Path(folder)])
        page = opened.studies.page(_filter())
        opened.studies.study(page["studies"][0]["study_id"], _filter())
        figures[f"{name}_seconds"] = round(time.perf_counter() - started, 2)
        figures[f"{name}_processor_seconds"] = round(time.process_time() - used, 2)
    server = make_server(opened)
    address = f"http://127.0.0.1:{launch(server)}"
    figures |= _page_through(address) | _search(address)
    server.get_blocks().close(verbose=False)
    return figures


def _filter(**wanted):
    from medvqa_hub.explore.row_filters import RowFilter

    return RowFilter(**wanted)


def _page_through(address: str) -> dict:
    """Time pages with their first study, in order and then across the release, and measure memory before and after."""
    seconds, studies, total = [], [], _get(address, "api/about")["studies"]["studies"]
    before = _resident()
    places = [20 * number for number in range(PAGES)] + [total * number // PAGES for number in range(PAGES)]
    for at in places:
        started = time.perf_counter()
        page = _get(address, f"api/studies?at={at}")
        seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
        _get(address, f"api/study?study={page['studies'][0]['study_id']}")
        studies.append(time.perf_counter() - started)
    halfway = _resident()
    for at in places:
        _get(address, f"api/study?study={_get(address, f'api/studies?at={at}')['studies'][0]['study_id']}")
    both = [page + study for page, study in zip(seconds, studies, strict=True)]
    return {
        "page_ms": _milliseconds(seconds),
        "study_ms": _milliseconds(studies),
        "page_and_study_ms": _milliseconds(both),
        "resident_before_mib": before,
        "resident_after_mib": halfway,
        "resident_after_again_mib": _resident(),
    }


def _search(address: str) -> dict:
    """Time a common filter, a complete search for a rare word, and the longest single response."""
    started = time.perf_counter()
    _get(address, "api/studies?category=Edema&label=positive&flag=relative:since")
    filtered = time.perf_counter() - started
    at, asked, started, first = 0, [], time.perf_counter(), None
    while at is not None:
        begun = time.perf_counter()
        page = _get(address, f"api/studies?at={at}&q={RARE.replace(' ', '%20').upper()}")
        asked.append(time.perf_counter() - begun)
        if page["studies"] and first is None:
            first = time.perf_counter() - started
        at = page["next"]
    return {
        "filter_ms": round(1000 * filtered, 1),
        "search_first_hit_ms": round(1000 * first, 1),
        "search_whole_seconds": round(time.perf_counter() - started, 2),
        "search_longest_answer_ms": round(1000 * max(asked), 1),
        "search_hits": page["total"],
    }


def by_datasets(folder: str, cache: str) -> dict:
    """The baseline: open the release as a `datasets.Dataset` and filter the rows of one study."""
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    from datasets import load_dataset

    import mimic_cxr_vqa  # noqa: F401 - registers the builder

    started = time.perf_counter()
    rows = load_dataset("mimic_cxr_vqa", "questions", data_dir=folder, split="train")
    rows[0:14]
    opened = time.perf_counter() - started
    started = time.perf_counter()
    wanted = rows[len(rows) // 2]["study_id"]
    found = rows.filter(lambda ids: [one == wanted for one in ids], input_columns="study_id", batched=True)
    found[:]
    return {
        "datasets_first_rows_seconds": round(opened, 2),
        "datasets_study_ms": round(1000 * (time.perf_counter() - started)),
    }


def _get(address: str, path: str) -> dict:
    """Request JSON over a persistent connection, as a browser does."""
    connection = _connections.setdefault(address, HTTPConnection(address.removeprefix("http://"), timeout=60))
    connection.request("GET", f"/{path}")
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    return json.loads(body)


_connections: dict[str, HTTPConnection] = {}


def _resident() -> int:
    """Anonymous resident memory of this process in MiB."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("RssAnon:")[1].split()[0]) / 1024)


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    return {"median": round(1000 * statistics.median(seconds), 1), "most": round(1000 * max(seconds), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_200_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as scratch:
        folder, caches = Path(scratch, "release"), [Path(scratch, name) for name in ("ours", "datasets")]
        write_big_release(folder, rows)
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        print(f"{rows:,} rows, {size / 1e6:.0f} MB of Parquet")
        busy = round(os.getloadavg()[0], 1)
        figures, _, peak = measure_in_child(explore, str(folder), str(caches[0]))
        rival, _, rival_peak = measure_in_child(by_datasets, str(folder), str(caches[1]))
    figures |= rival | {
        "rows": rows,
        "load_average": busy,
        "parquet_mb": round(size / 1e6),
        "peak_gib": round(peak / 2**30, 2),
    }
    figures["datasets_peak_gib"] = round(rival_peak / 2**30, 2)
    figures["ratio"] = round(figures["datasets_first_rows_seconds"] / figures["first_page_seconds"], 2)
    figures["ratio_study"] = round(figures["datasets_study_ms"] / figures["study_ms"]["median"], 1)
    for name, value in figures.items():
        print(f"{name}: {value}")
    reached = figures["first_page_seconds"] < FIRST_TARGET and figures["page_and_study_ms"]["most"] < 1000 * PAGE_TARGET
    grown = figures["resident_after_again_mib"] - figures["resident_after_mib"]
    print(
        f"first page {figures['first_page_seconds']} s (target {FIRST_TARGET}), slowest page with its study "
        f"{figures['page_and_study_ms']['most']} ms (target {1000 * PAGE_TARGET:.0f}): "
        f"{'reached' if reached else 'MISSED'}; memory grew by {grown} MiB over {2 * PAGES} pages"
    )
    write_result("explore", figures)


if __name__ == "__main__":
    main()
