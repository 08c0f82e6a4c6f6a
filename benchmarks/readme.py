"""The README's table of figures, made from the result files.

`python benchmarks/readme.py` writes it; a test compares it.
"""

import json
from pathlib import Path

NAMES = ("questions", "loading", "images", "generation_swin_ved", "generation_blip2_multiview")
RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- figures: python benchmarks/readme.py -->\n", "<!-- end of figures -->"


def make_table() -> str:
    """The Markdown table, from `results/*.json`."""
    questions, loading, images, swin_ved, blip2 = (json.loads((RESULTS / f"{name}.json").read_text()) for name in NAMES)
    grouped, tower = swin_ved["cpu_float32"], blip2["runs"]["cpu_deep_tower"]
    average, noisy = images["films"]["average_film"], images["films"]["noisy_film"]
    machine = images["machine"]
    lines = [
        "| what (`benchmarks/`) | here | baseline | ratio |",
        "|---|---|---|---|",
        f"| questions of {questions['studies']:,} studies (`questions.py`) | {questions['seconds']} s "
        f"| scan of the tables per study: {questions['baseline_seconds']} s | **{questions['ratio']}x** |",
        f"| {loading['rows']:,} rows of the authors' CSV to a ready dataset (`loading.py`) "
        f"| {loading['load_ours_seconds']} s, peak {loading['load_ours_peak_gib']} GiB "
        f"| the same dataset by pandas and `from_pandas`: {loading['load_by_pandas_seconds']} s, "
        f"peak {loading['load_by_pandas_peak_gib']} GiB | **{loading['ratio']}x** |",
        f"| … against the ten CSV columns as they are | | pandas and `from_pandas`, nothing converted: "
        f"{loading['load_bare_seconds']} s, peak {loading['load_bare_peak_gib']} GiB | {loading['ratio_bare']}x |",
        *(
            f"| JPEG 2544x3056 of {film['file_mb']} MB to a 384 input, one core (`images.py`) | {film['fast_ms']} ms "
            f"| open, RGB, resize: {film['plain_ms']} ms | {bold(film['fast_ratio'], images['target'])} |"
            for film in (average, noisy)
        ),
        f"| {swin_ved['questions']} questions of a study with {swin_ved['images']} images, SwinVED base, beam "
        f"{swin_ved['beams']} (`generation.py`) | {grouped['grouped_seconds']} s | one by one, images encoded each "
        f"time, no cache: {grouped['one_by_one_seconds']} s | **{grouped['ratio']}x** |",
        f"| images of {blip2['studies']} studies, deep and narrow vision tower, BLIP-2-MultiView (`generation.py`) "
        f"| {tower['together_ms']} ms | one call per image: {tower['one_by_one_ms']} ms | **{tower['ratio']}x** |",
        "",
        f"On {machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB. Files of MIMIC-CXR-JPG "
        "have 1.5 MB on average. The fast image path differs from the exact one by at most "
        f"{noisy['fast_max_difference']} grey levels (mean {noisy['fast_mean_difference']}); `exact=True` gives equal "
        "pixels.",
    ]
    return "\n".join(lines) + "\n"


def bold(ratio: float, target: float) -> str:
    """A ratio, bold where it reaches its target."""
    return f"**{ratio}x**" if ratio >= target else f"{ratio}x (below the target of {target:g}x)"


def replace_table(text: str) -> str:
    """`text` with what stands between the two markers replaced by the table."""
    before, rest = text.split(START)
    _, after = rest.split(END)
    return f"{before}{START}{make_table()}{END}{after}"


if __name__ == "__main__":
    README.write_text(replace_table(README.read_text(encoding="utf-8")), encoding="utf-8")
