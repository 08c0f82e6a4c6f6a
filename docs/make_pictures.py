"""Writes the README's pictures of the explorer: docs/explorer.png and docs/explorer_strip.jpg.

Run: python docs/make_pictures.py      (needs the extra `app`, playwright, Chromium, and fonts-noto-cjk)

All data is synthetic. The two runs are not models: one gives the most frequent answer of each category, the other the
answer for another patient.
"""

import io
import shutil
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import huggingface_hub.constants
import pyarrow as pa
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE, Prediction, PredictionStore
from medvqa_hub.cli import run
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from medvqa_hub.explore.server import make_server
from medvqa_hub.explore.serving import launch, make_address
from mimic_cxr_vqa.release import open_release
from rjua_meddqa import SAMPLE_DIR

DOCS = Path(__file__).parent
SIZE, STRIP = (1400, 860), (700, 430)  # pixels of the page, and of each picture in the strip
COLOURS = 256  # of the PNG, to save space


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        huggingface_hub.constants.HF_HOME = str(place / "cache")  # for the path of the last build
        _build(place)
        runs = tuple(_write_run(place, name) for name in ("commonest-answer", "another-patient"))
        asked = ExploreOptions(runs, place / "tree", None, place / "corrected")
        server = make_server(open_folders([place / "cxr", place / "cxr" / "review", SAMPLE_DIR], asked))
        address = make_address(launch(server))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            light, dark = (_open(browser, theme) for theme in ("light", "dark"))
            _write(_study(light, address), DOCS / "explorer.png")
            frames = [_window(dark, address), _correct(light, address), _rate(light, address), _ask(dark, address)]
            browser.close()
        server.get_blocks().close(verbose=False)
    _write(_side_by_side(frames), DOCS / "explorer_strip.jpg")


def _build(place: Path) -> None:
    tree, cxr = str(place / "tree"), str(place / "cxr")
    for line in (
        ["cxr", "phantom", "--out", tree, "--studies", "40", "--size", "512"],
        ["cxr", "questions", "--root", tree, "--source", "phantom", "--out", cxr],
        ["cxr", "answer", "--out", cxr],
        ["cxr", "release", "--out", cxr],
        ["cxr", "review", "export", "--out", cxr, "--items", "8", "--raters", "2", "--image-root", tree],
    ):
        if run(line):
            raise SystemExit(f"failed: medvqa-hub {' '.join(line)}")


def _write_run(place: Path, name: str) -> Path:
    rows = pa.Table.from_batches(open_release(place / "cxr").iterate_all()).to_pylist()
    answers: dict[str, Counter] = defaultdict(Counter)
    others: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for row in rows:
        answers[row["category"]][row["answer"]] += 1
        others[row["category"], row["question"]].append(row)
    folder = place / name
    with PredictionStore(folder / FILE, Governance.OPEN, {"model": name}) as store:
        for row in rows:
            foreign = [
                other for other in others[row["category"], row["question"]] if other["subject_id"] != row["subject_id"]
            ]
            commonest = answers[row["category"]].most_common(1)[0][0]
            answer = foreign[0]["answer"] if foreign and name == "another-patient" else commonest
            store.append([Prediction(store.key(id=row["qa_id"]), row["qa_id"], answer)])
    return folder


def _open(browser, theme: str) -> Page:
    size = {"width": SIZE[0], "height": SIZE[1]}
    return browser.new_context(viewport=size, color_scheme=theme).new_page()


def _shoot(page: Page) -> Image.Image:
    page.wait_for_timeout(400)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def _study(page: Page, address: str) -> Image.Image:
    """A filter for studies with runs that differ from the reference."""
    page.goto(f"{address}?category=Pneumothorax&label=positive&difference=from+reference")
    page.wait_for_selector(".stage:not(.loading) img")
    return _shoot(page)


def _window(page: Page, address: str) -> Image.Image:
    page.goto(f"{address}?category=Edema&label=positive&zoom=1.7&x=12&y=10&level=58&window=72")
    page.wait_for_selector(".stage:not(.loading) img")
    return _shoot(page)


def _correct(page: Page, address: str) -> Image.Image:
    page.goto(f"{address}?view=reports&report=report0005.jpg")
    page.wait_for_selector(".rows tbody tr")
    field = page.locator(".rows tbody tr").nth(8).locator("textarea").nth(1)
    field.fill("32↑")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".findings")
    page.locator(".piece", has_text="尿红细胞计数").hover()
    return _shoot(page)


def _rate(page: Page, address: str) -> Image.Image:
    page.goto(f"{address}?view=review&rater=rater-1")
    page.wait_for_selector(".stage:not(.loading) img")
    for key in "23":
        page.keyboard.press(key)
    return _shoot(page)


def _ask(page: Page, address: str) -> Image.Image:
    page.goto(f"{address}?view=ask&of=study&kind=Pleural+Effusion")
    page.wait_for_selector(".stage:not(.loading) img")
    for number in range(2):
        page.locator(".suggested button").nth(number).click()
        page.wait_for_selector(f".talk li:nth-child({number + 1}) .quiet-text:has-text(' s')")
    return _shoot(page)


def _side_by_side(frames: list[Image.Image]) -> Image.Image:
    """Combine pictures two by two."""
    gap = 10
    strip = Image.new("RGB", (2 * STRIP[0] + gap, 2 * STRIP[1] + gap), "#8a949a")
    for number, frame in enumerate(frames):
        place = ((number % 2) * (STRIP[0] + gap), (number // 2) * (STRIP[1] + gap))
        strip.paste(frame.resize(STRIP, Image.Resampling.LANCZOS), place)
    return strip


def _write(picture: Image.Image, path: Path) -> None:
    if path.suffix == ".png":
        picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    else:  # a palette has too few colours for light and dark
        picture.save(path, quality=84, subsampling=0, optimize=True)
    print(f"{path}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
