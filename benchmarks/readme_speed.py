"""The table of how fast it is, made from the result files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_json

NAMES = (
    "loading", "images", "generation_swin_ved", "scst", "reward", "training_input", "feature_cache", "esra", "explore",
)  # fmt: skip
RESULTS = Path(__file__).parent / "results"


def make_speed() -> str:
    """The Markdown table and the sentence under it, from `results/*.json`."""
    loading, images, swin_ved = (_read(name) for name in ("loading", "images", "generation_swin_ved"))
    grouped = swin_ved["cpu_float32"]
    average, noisy = images["films"]["average_film"], images["films"]["noisy_film"]
    lines = [
        "| what (`benchmarks/`) | here | baseline | ratio |",
        "|---|---|---|---|",
        f"| {loading['rows']:,} rows of the authors' CSV to a ready dataset (`loading.py`) "
        f"| {loading['load_ours_seconds']} s, peak {loading['load_ours_peak_gib']} GiB "
        f"| the same dataset by pandas and `from_pandas`: {loading['load_by_pandas_seconds']} s, "
        f"peak {loading['load_by_pandas_peak_gib']} GiB | **{loading['ratio']}x** |",
        f"| … against the ten CSV columns as they are | | pandas and `from_pandas`, nothing converted: "
        f"{loading['load_bare_seconds']} s, peak {loading['load_bare_peak_gib']} GiB | {loading['ratio_bare']}x |",
        *(
            f"| JPEG 2544x3056 of {film['file_mb']} MB to a 384 input, one core (`images.py`) | {film['fast_ms']} ms "
            f"| open, RGB, resize: {film['plain_ms']} ms | {mark_target(film['fast_ratio'], images['target'])} |"
            for film in (average, noisy)
        ),
        f"| {swin_ved['questions']} questions of a study with {swin_ved['images']} images, SwinVED base, beam "
        f"{swin_ved['beams']} (`generation.py`) | {grouped['grouped_seconds']} s | one by one, images encoded each "
        f"time, no cache, scaled up from {grouped['one_by_one_questions_timed']}: {grouped['one_by_one_seconds']} s "
        f"| **{grouped['ratio']}x** |",
        _bfloat16_row("these answers", swin_ved, lambda run: run["grouped_seconds"], "s"),
        *_training_rows(),
        *_page_rows(),
        *_explorer_rows(),
        "",
        f"{_machines()} Files of MIMIC-CXR-JPG have 1.5 MB on average. The fast image path differs from the exact one "
        f"by at most {noisy['fast_max_difference']} grey levels (mean {noisy['fast_mean_difference']}). The CUDA "
        "branches of these benchmarks have not been run.",
    ]
    return "\n".join(lines) + "\n"


def mark_target(ratio: float, target: float) -> str:
    """A ratio, bold where it reaches its target."""
    return f"**{ratio}x**" if ratio >= target else f"{ratio}x (below the target of {target:g}x)"


def _bfloat16_row(what: str, result: dict[str, Any], read: Callable[[dict[str, Any]], float], unit: str) -> str:
    """Our own way in bfloat16 against float32. `unit` is s (less is faster) or /s."""
    half, full = read(result["cpu_bfloat16"]), read(result["cpu_float32"])
    ratio = full / half if unit == "s" else half / full
    return f"| … {what} in bfloat16 | {half} {unit} | in float32: {full} {unit} | {ratio:.2f}x |"


def _training_rows() -> list[str]:
    scst, reward, batches = _read("scst"), _read("reward"), _read("training_input")
    cache = _read("feature_cache")
    step = scst["cpu_float32"]
    return [
        f"| SCST step per question, Swin-B 384, {scst['images']} images, 1 study x {scst['questions']} questions "
        f"(`scst.py`) | {step['ours_seconds_per_question']} s | a loop as in the authors' code, questions timed: "
        f"{step['baseline_questions_timed']}: "
        f"{step['baseline_seconds_per_question']} s | {mark_target(step['ratio'], step['target'])} |",
        _bfloat16_row("this step", scst, lambda run: run["ours_seconds_per_question"], "s"),
        f"| BERTScore reward of greedy and sample, {reward['headline_questions']} questions (`reward.py`) "
        f"| {_run(reward)['reward_ms']} ms | two calls of bert-score: {_run(reward)['bert_score_twice_ms']} ms "
        f"| {mark_target(reward['ratio'], reward['target'])} |",
        f"| training questions per second, Swin-B 384, {batches['questions_per_study']} questions a study "
        f"(`training_input.py`) | {batches['cpu_float32']['stage_2']['grouped_questions_per_second']}/s | one question "
        f"per row, timed on {batches['rows_timed']}: "
        f"{batches['cpu_float32']['stage_2']['rows_questions_per_second']}/s "
        f"| {mark_target(batches['ratio'], batches['target'])} |",
        _bfloat16_row("stage 2", batches, lambda run: run["stage_2"]["grouped_questions_per_second"], "/s"),
        *(
            f"| stage 1 with cached features, {count} a study (`feature_cache.py`) "
            f"| {cache[name]['questions_per_second_cached']}/s | each image encoded in each step: "
            f"{cache[name]['questions_per_second']}/s | **{cache[name]['ratio']}x** |"
            for name, count in (("1_a_study", "1 question"), ("8_a_study", "8 questions"))
        ),
    ]


def _page_rows() -> list[str]:
    esra = _read("esra")
    pipeline = esra["pipeline"]
    return [
        f"| pages of {esra['boxes']} boxes set in lines by ESRA, wrapped cells not joined (`esra.py`) "
        f"| {esra['pages_per_second']}/s a core "
        f"| target {esra['targets']['pages_per_second']}/s | |",
        f"| {pipeline['images']} report images restored a second time, from the cache of what was read "
        f"| {pipeline['second_run_seconds']} s | read, rectified, restored the first time: "
        f"{pipeline['first_run_seconds']} s, {pipeline['median_seconds_per_page']} s a page (median), peak "
        f"{pipeline['peak_memory_mib']} MiB | **{pipeline['cached_ratio']}x** |",
    ]


def _explorer_rows() -> list[str]:
    explore = _read("explore")
    return [
        f"| first page of {explore['rows']:,} rows in the explorer, from opening the release (`explore.py`) "
        f"| {explore['first_page_seconds']} s, peak {explore['peak_gib']} GiB | the same rows by `load_dataset`: "
        f"{explore['datasets_first_rows_seconds']} s, peak {explore['datasets_peak_gib']} GiB "
        f"| {mark_target(explore['ratio'], 1)} |",
        f"| … one study, anywhere in the release | {explore['study_ms']['median']} ms, at most "
        f"{explore['study_ms']['most']} ms, with a page of 20 studies {explore['page_and_study_ms']['median']} ms, at "
        f"most {explore['page_and_study_ms']['most']} ms | one study's rows by `Dataset.filter`: "
        f"{explore['datasets_study_ms']} ms | **{explore['ratio_study']}x** |",
    ]


def _machines() -> str:
    """On what each benchmark was run."""
    places: dict[str, list[str]] = {}
    for name in NAMES:
        machine = _read(name)["machine"]
        place = f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB"
        places.setdefault(place, []).append(f"`{name}`")
    if len(places) == 1:
        return f"On {next(iter(places))}."
    return " ".join(f"{', '.join(names)}: {place}." for place, names in places.items())


def _run(reward: dict[str, Any]) -> dict[str, Any]:
    return reward["runs"][str(reward["headline_questions"])]


def _read(name: str) -> dict[str, Any]:
    return read_json(RESULTS / f"{name}.json", "run the benchmark that writes it")
