"""Pages and folders of them: cached by content, resumed after a kill, one bad file survived; the commands."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from meddqa_words import WORDS, WordEngine, draw_words
from paths import HELPERS, REPOSITORY
from PIL import Image

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from rjua_meddqa.commands import reading as steps
from rjua_meddqa.restoration import images
from rjua_meddqa.restoration.pages import (
    READINGS,
    from_json,
    make_page,
    read_pages,
    restore_folder,
    restore_page,
    to_json,
)
from rjua_meddqa.restoration.readings import open_cache, read_report, reading_key


def write_images(folder: Path, count: int) -> list[Path]:
    """`count` different images: the first has three words, every other three more."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        draw_words(rows=1 + number).save(folder / f"page{number}.png")
    return sorted(folder.iterdir())


def test_a_page_in_pixels_of_the_original(tmp_path, monkeypatch):
    (path,) = write_images(tmp_path, 1)
    whole = restore_page(path, WordEngine())
    assert (whole.image, whole.width, whole.height) == ("page0.png", 900, 824)
    assert whole.boxes == whole.original_boxes and whole.restored.text.split() == WORDS[:3]
    assert whole.quality == "high"
    monkeypatch.setattr(images, "WORK_SIDE", 300)  # read at a third of its size
    small = restore_page(path, WordEngine())
    for box, expected in zip(small.original_boxes, whole.original_boxes, strict=True):
        assert box.left == pytest.approx(expected.left, abs=4) and box.bottom == pytest.approx(expected.bottom, abs=4)
        assert box.text == expected.text
    assert small.boxes[0].right == pytest.approx(whole.boxes[0].right / 3, abs=2)


def test_the_same_image_is_read_once(tmp_path):
    (path,) = write_images(tmp_path / "images", 1)
    engine = WordEngine()
    with open_cache(tmp_path / "cache.jsonl") as cache:
        first = restore_page(path, engine, cache)
        renamed = path.rename(path.with_name("other.png"))
        second = restore_page(renamed, engine, cache)
        assert engine.readings == 1
        assert second == replace(first, image="other.png")
        wide = restore_page(renamed, engine, cache, r=0.5, l=1.0, layout="absolute")
        assert engine.readings == 1 and wide.restored.text != first.restored.text
        draw_words(rows=2).save(renamed)
        assert len(restore_page(renamed, engine, cache).boxes) == 6 and engine.readings == 2


def test_engines_versions_and_settings_have_readings_of_their_own(tmp_path):
    (path,) = write_images(tmp_path, 1)
    engines = [WordEngine(), WordEngine(name="b"), WordEngine(version="2"), WordEngine(settings={"max_side": 9})]
    assert len({reading_key(path, engine) for engine in engines}) == 4
    assert reading_key(path, WordEngine()) == reading_key(path, WordEngine(readings=7))


def test_pages_survive_json(tmp_path):
    (path,) = write_images(tmp_path, 1)
    page = restore_page(path, WordEngine(), layout="absolute")
    assert from_json(json.loads(json.dumps(to_json(page))), "x") == page
    values = to_json(page)
    for broken in ({**values, "lines": [[99]]}, {k: v for k, v in values.items() if k != "angle"}, []):
        with pytest.raises(InputError, match="x: not a restored page"):
            from_json(broken, "x")


def test_the_kind_of_image_overrides_the_sensors_but_no_unreadable_page(tmp_path):
    Image.new("RGB", (200, 100), "white").save(tmp_path / "a.png")
    for image_type in (None, "photo", "pdf"):
        page = restore_page(tmp_path / "a.png", WordEngine(), image_type=image_type)
        assert (page.quality, page.quality_reason) == ("unreadable", "no text was read")
    reading = read_report(tmp_path / "a.png", WordEngine()) | {"quality": "low", "quality_reason": "skewed"}
    assert make_page("a.png", reading).quality == make_page("a.png", reading, image_type="photo").quality == "low"
    assert make_page("a.png", reading, image_type="pdf").quality == "high"
    with pytest.raises(ConfigError, match="'scan'"):
        make_page("a.png", reading, image_type="scan")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_survives_bad_files_and_names_them(tmp_path, workers):
    folder = tmp_path / "images"
    paths = write_images(folder, 3)
    (folder / "page1b.png").write_bytes(paths[1].read_bytes())  # the same content under another name
    for name in ("broken.png", "broken2.png"):
        (folder / name).write_bytes(paths[0].read_bytes()[:500])
    (folder / "scan.pdf").write_bytes(b"%PDF-1.7")
    Image.new("RGB", (90, 90), "white").save(folder / "white.png")
    result = restore_folder(folder, tmp_path / "out", WordEngine(log=tmp_path / "log"), workers)
    assert result.pages == 5 and result.read_now == 4 and result.empty == ("white.png",)
    reasons = dict(result.failed)
    assert list(reasons) == ["broken.png", "broken2.png", "scan.pdf"]
    assert "broken.png: the image cannot be read" in reasons["broken.png"] and "pdftoppm" in reasons["scan.pdf"]
    assert "broken2.png: the same content as" in reasons["broken2.png"]
    pages = list(read_pages(tmp_path / "out"))
    assert [page.image for page in pages] == ["page0.png", "page1.png", "page1b.png", "page2.png", "white.png"]
    assert [len(page.boxes) for page in pages] == [3, 6, 6, 9, 0]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["governance"] == "share-alike" and manifest["counts"] == {"pages": 5, "empty": 1, "failed": 3}
    assert manifest["failed"][0]["image"] == "broken.png"
    before = (tmp_path / "out" / "pages.jsonl").read_bytes(), (tmp_path / "log").read_text()
    again = restore_folder(folder, tmp_path / "out", WordEngine(log=tmp_path / "log"), workers)
    assert again.read_now == 0 and again.failed == result.failed
    assert before == ((tmp_path / "out" / "pages.jsonl").read_bytes(), (tmp_path / "log").read_text())


def test_workers_change_nothing(tmp_path):
    write_images(tmp_path / "images", 4)
    for workers in (1, 3):
        restore_folder(tmp_path / "images", tmp_path / f"out{workers}", WordEngine(), workers)
    one, three = ((tmp_path / f"out{n}" / "pages.jsonl").read_bytes() for n in (1, 3))
    assert one == three


NAN = float("nan")


@dataclass
class Degenerate(WordEngine):
    change: dict = field(default_factory=dict)

    def read(self, image):
        boxes = super().read(image)
        return [*boxes, replace(boxes[0], **self.change)] if len(boxes) == 6 else boxes


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"points": ((NAN, 0), (9, 0), (9, 9), (0, 9))}, "finite"),
        ({"points": ((0, 0), (9, 0), (9, 0.004), (0, 0.004))}, "height 0"),  # nothing is left once it is written
        ({"score": NAN}, "score nan"),
    ],
)
def test_a_degenerate_box_of_an_engine_fails_its_image_only(tmp_path, change, reason):
    write_images(tmp_path / "images", 3)
    for _ in range(2):  # nothing of it is in the cache
        result = restore_folder(tmp_path / "images", tmp_path / "out", Degenerate(change=change))
        assert result.pages == 2 and result.failed[0][0] == "page1.png" and reason in result.failed[0][1]


class KilledWorker(WordEngine):
    def read(self, image):
        os.kill(os.getpid(), signal.SIGKILL)


class KilledByOne(WordEngine):
    def read(self, image):
        boxes = super().read(image)
        if len(boxes) == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return boxes


@pytest.mark.slow
def test_an_image_that_kills_its_worker_is_left_out_like_any_bad_file(tmp_path):
    write_images(tmp_path / "images", 6)
    for read_now in (5, 0):  # nothing is read again that the killed worker's pool had read
        result = restore_folder(tmp_path / "images", tmp_path / "out", KilledByOne(), 2)
        assert (result.pages, result.read_now) == (5, read_now)
        ((name, reason),) = result.failed
        assert name == "page1.png" and "the process that read it was killed" in reason


class Uninstalled(WordEngine):
    def read(self, image):
        raise ConfigError("not installed")


@pytest.mark.slow
def test_what_is_not_the_images_fault_stops_the_run(tmp_path):
    write_images(tmp_path / "images", 3)
    with pytest.raises(ConfigError, match="page0.png, page1.png, page2.png.*fewer workers"):
        restore_folder(tmp_path / "images", tmp_path / "out", KilledWorker(), 2)
    for workers in (1, 2):
        with pytest.raises(ConfigError, match="not installed"):
            restore_folder(tmp_path / "images", tmp_path / "out", Uninstalled(), workers)


def test_wrong_requests(tmp_path):
    (path,) = write_images(tmp_path / "images", 1)
    out, engine = tmp_path / "out", WordEngine()
    with pytest.raises(ConfigError, match="workers is 0"):
        restore_folder([path], out, engine, 0)
    with pytest.raises(ConfigError, match="layout 'html'"):
        restore_folder([path], out, engine, layout="html")
    with pytest.raises(ConfigError, match="have the same name"):
        restore_folder([path, tmp_path / "other" / path.name], out, engine)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_bytes(b"x")
    with pytest.raises(InputError, match="a.png"):
        restore_folder(tmp_path / "bad", out, engine)
    assert engine.readings == 0
    with pytest.raises(InputError, match="pages.jsonl.*medvqa-hub meddqa esra"):
        list(read_pages(out))
    restore_folder([path], out, engine)
    with pytest.raises(GovernanceError):
        restore_folder([path], out, engine, governance=Governance.OPEN)


SLOW_RUN = """
import sys, time
from pathlib import Path
from meddqa_words import WordEngine
from rjua_meddqa.restoration.pages import restore_folder

class Slow(WordEngine):
    def read(self, image):
        time.sleep(0.3)
        return super().read(image)

if __name__ == "__main__":
    images, out, log, workers = sys.argv[1:]
    restore_folder(Path(images), Path(out), Slow(log=Path(log)), int(workers))
"""


def kill_after(records: int, command: list[str], store: Path) -> None:
    """Start `command` and kill it (-9) with all its children once `store` holds that many records."""
    environment = {**os.environ, "PYTHONPATH": str(HELPERS)}
    process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not store.exists() or store.read_bytes().count(b"\n") <= records:
        assert process.poll() is None and time.monotonic() < deadline, "finished before it could be killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_goes_on_with_nothing_lost_or_read_twice(tmp_path, workers):
    write_images(tmp_path / "images", 8)
    script, log, out = tmp_path / "slow.py", tmp_path / "log", tmp_path / "out"
    script.write_text(SLOW_RUN)
    command = [sys.executable, str(script), str(tmp_path / "images"), str(out), str(log), str(workers)]
    kill_after(2, command, out / READINGS)
    assert not (out / "pages.jsonl").exists()
    with open_cache(out / READINGS) as cache:
        kept = {record["key"]: record for record in cache.records()}
    assert 2 <= len(kept) < 8
    with (out / READINGS).open("ab") as file:
        file.write(b'{"key": "00112233445566778899aabbccdd')  # torn by the kill
    result = restore_folder(tmp_path / "images", out, WordEngine(), workers)
    assert result.read_now == 8 - len(kept)
    restore_folder(tmp_path / "images", tmp_path / "whole", WordEngine())
    assert (out / "pages.jsonl").read_bytes() == (tmp_path / "whole" / "pages.jsonl").read_bytes()
    with open_cache(out / READINGS) as cache:
        records = {record["key"]: record for record in cache.records()}
    assert len(records) == 8 and all(records[key] == record for key, record in kept.items())


@pytest.fixture
def word_engine(monkeypatch):
    monkeypatch.setattr(steps, "RapidOcrEngine", WordEngine)


def test_the_commands_one_after_the_other(tmp_path, capsys, word_engine):
    folder, out = tmp_path / "images", tmp_path / "out"
    write_images(folder, 2)
    broken = [f"broken{number:02}.jpg" for number in range(30)]
    for name in broken:
        (folder / name).write_bytes(b"x")
    (folder / "more").mkdir()
    assert run(f"meddqa ocr --images {folder} --out {out}".split()) == 0
    printed = capsys.readouterr().out
    assert "pages: 2, read now: 2, without text: 0, left out: 30" in printed and all(name in printed for name in broken)
    assert f"not searched: folders in {folder} (more)" in printed
    assert run(f"meddqa esra --boxes {out}/boxes/page1.png.json".split()) == 0
    assert capsys.readouterr().out.split() == WORDS[:6]
    assert run(f"meddqa esra --images {folder} --out {out} --layout absolute --l 0.5".split()) == 0
    assert "all images had been read before" in capsys.readouterr().out
    pages = (out / "pages.jsonl").read_bytes()
    (tmp_path / "annotations.csv").write_text(
        "idx,img_path,kv,table,report_type,image_type,image_quality\n"
        "1,page0.png,{'a': 'b'},,MRI,photo,low\n2,page1.png,{'a': 'b'},,MRI,pdf,high\n"
    )
    assert run(f"meddqa quality --images {folder} --out {out} --annotations {tmp_path}/annotations.csv".split()) == 0
    printed = capsys.readouterr().out
    assert "page0.png: high" in printed and "; annotated as low" in printed
    assert "page1.png: high (a pdf, no photo)" in printed and "same as annotated: 1 of 2" in printed
    assert (out / "pages.jsonl").read_bytes() == pages  # judging does not restore again
    assert run(f"meddqa esra --images {folder}/page0.png".split()) == 0
    assert capsys.readouterr().out.split() == WORDS[:3]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("meddqa esra", "either --images or --boxes"),
        ("meddqa esra --images {tmp} --boxes {tmp}/a.json", "either --images or --boxes"),
        ("meddqa esra --images {tmp}", "--out"),
        ("meddqa esra --images {tmp}/none.png", "none.png: cannot be read"),
        ("meddqa esra --boxes {tmp}/none.json", "none.json"),
        ("meddqa esra --images {tmp}/none --out {tmp}/out", "none is not a folder"),
        ("meddqa esra --images {tmp}/empty --out {tmp}/out", "no image found"),
        ("meddqa ocr --images {tmp}/file.png --out {tmp}/out", "none of 1 images can be read"),
        ("meddqa ocr --images {tmp}/file.png --out {tmp}/file.png", "cannot write"),
        ("meddqa quality --images {tmp} --out {tmp}/out --annotations {tmp}/none.csv", "none.csv"),
    ],
)
def test_wrong_commands_are_one_line(arguments, expected, tmp_path, capsys, word_engine):
    (tmp_path / "file.png").write_text("no image")
    (tmp_path / "empty").mkdir()
    assert run(arguments.format(tmp=tmp_path).split()) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and expected in lines[0], lines


@pytest.mark.slow
def test_item_and_result_of_the_real_tables_are_on_one_line(real_data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    from row_check import check_rows

    from rjua_meddqa.released import read_annotations
    from rjua_meddqa.restoration.ocr import RapidOcrEngine

    folder = real_data / "rjua_samples"
    if not (folder / "images").is_dir():
        pytest.skip(f"no sample reports at {folder}")
    annotations = read_annotations(folder / "sampled_image_content_kv_table_annotation.csv")
    tables = {annotation.img_path: annotation.table for annotation in annotations if annotation.table}
    paths = [folder / "images" / name for name in tables]
    restore_folder(paths, tmp_path, RapidOcrEngine())
    checks = [check for page in read_pages(tmp_path) for check in check_rows(page.restored.lines, tables[page.image])]
    missing = [f"{check.row.item}: {check.reason}" for check in checks if check.found is None]
    assert len(checks) >= 1 and len(missing) / len(checks) <= 3 / 52, missing


def test_images_of_an_earlier_run_elsewhere_are_not_read_again(tmp_path):
    paths = write_images(tmp_path, 2)
    engine = WordEngine()
    restore_folder(paths, tmp_path / "first", engine)
    assert engine.readings == 2
    done = restore_folder(paths, tmp_path / "second", engine, known=tmp_path / "first")
    assert done.read_now == 0 and engine.readings == 2
    assert list(read_pages(tmp_path / "second")) == list(read_pages(tmp_path / "first"))
    draw_words(rows=3).save(paths[0])  # another image of the same name is another image
    assert restore_folder(paths, tmp_path / "third", engine, known=tmp_path / "first").read_now == 1
    with pytest.raises(InputError, match="meddqa esra"):
        restore_folder(paths, tmp_path / "fourth", engine, known=tmp_path / "none")
