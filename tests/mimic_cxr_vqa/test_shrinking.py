"""A tree of small images: the same paths, whole copies, its source's class; stopped, changed and damaged ones."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from mimic_cxr_vqa import shrinking
from mimic_cxr_vqa.images import read_film
from mimic_cxr_vqa.shrinking import get_tree_governance, shrink_tree

MIMIC = "files/p10/p10000032/s50414267/a.jpg"
DRAWN = "files/p90/p90000001/s95000001/a.jpg"


def draw(path: Path, width: int = 90, height: int = 120) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(path.name)).integers(0, 255, (height, width), dtype=np.uint8)
    Image.fromarray(pixels).resize((width, height)).save(path)
    return path


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "tree"
    for name in (DRAWN, "files/p90/p90000001/s95000001/b.jpg", "NLMCXR_png/c.png", "d.JPG"):
        draw(root / name)
    (root / "phantom.json").write_text('{"source": "phantom"}')
    (root / "table.csv.gz").write_bytes(b"no image")
    return root


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_every_image_lies_at_its_path_and_is_what_training_would_read(tree, tmp_path):
    out = tmp_path / "small"
    manifest = shrink_tree(tree, out, 32, workers=1)
    images = {name for name in files(tree) if name.endswith(("jpg", "png", "JPG"))}
    assert files(out) == images | {"shrunk.json", "manifest.json"}
    assert manifest["counts"] == {"images": 4, "written": 4} and manifest["governance"] == "open"
    for name in images:
        with Image.open(out / name) as image:
            assert (image.size, image.mode, image.format) == ((32, 43), "L", "PNG" if "png" in name else "JPEG")
            apart = np.abs(np.asarray(image).astype(int) - np.asarray(read_film(tree / name, 32)).astype(int))
        assert apart.max() <= (0 if "png" in name else 12)


def test_what_is_there_stays_and_what_has_changed_is_made_again(tree, tmp_path):
    out = tmp_path / "small"
    shrink_tree(tree, out, 32, workers=1)
    before = {name: (out / name).stat().st_ino for name in files(out)}
    assert shrink_tree(tree, out, 32, workers=1)["counts"]["written"] == 0
    draw(tree / DRAWN, 60, 60)
    (out / "d.JPG").unlink()
    assert shrink_tree(tree, out, 32, workers=1)["counts"]["written"] == 2
    again = {name: (out / name).stat().st_ino for name in files(out)}
    assert again["NLMCXR_png/c.png"] == before["NLMCXR_png/c.png"]
    with Image.open(out / DRAWN) as image:
        assert image.size == (32, 32)


def test_the_class_follows_the_content_whatever_the_folder_says(tmp_path):
    """The attack: MIMIC's images under a marker that calls them drawn, or in a tree shrunk from one."""
    root = tmp_path / "tree"
    draw(root / MIMIC)
    (root / "phantom.json").write_text('{"source": "phantom"}')
    (root / "shrunk.json").write_text('{"governance": "open"}')
    assert shrink_tree(root, tmp_path / "small", 32, workers=1)["governance"] == "credentialed"
    assert (tmp_path / "small").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "small" / MIMIC).stat().st_mode & 0o777 == 0o600
    assert get_tree_governance(tmp_path, ["a.png"]) is Governance.CREDENTIALED  # nothing tells
    again = shrink_tree(tmp_path / "small", tmp_path / "smaller", 16, workers=1)
    assert again["governance"] == "credentialed"


def test_a_class_is_never_lowered(tree, tmp_path):
    out = tmp_path / "small"
    (tree / "phantom.json").unlink()  # nothing tells: credentialed
    shrink_tree(tree, out, 32, workers=1)
    (tree / "phantom.json").write_text('{"source": "phantom"}')
    with pytest.raises(GovernanceError, match="never lowered"):
        shrink_tree(tree, out, 32, workers=1)


def test_a_damaged_image_is_named_and_the_others_are_written(tree, tmp_path):
    (tree / DRAWN).write_bytes(b"\xff\xd8\xffbroken")
    with pytest.raises(InputError, match=r"1 of 4 images .*a\.jpg"):
        shrink_tree(tree, tmp_path / "small", 32, workers=1)
    assert not (tmp_path / "small" / "manifest.json").exists()
    draw(tree / DRAWN)
    assert shrink_tree(tree, tmp_path / "small", 32, workers=1)["counts"]["written"] == 1


@pytest.mark.parametrize("out", ["tree/small", "."])
def test_source_and_copy_may_not_lie_in_one_another(tree, tmp_path, out):
    with pytest.raises(ConfigError, match="overlap"):
        shrink_tree(tree, tmp_path / out, 32)


def test_other_folders_and_sizes_are_refused(tree, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="shrunk images"):
        shrink_tree(tree, tmp_path / "other", 32)
    shrink_tree(tree, tmp_path / "small", 32, workers=1)
    with pytest.raises(ConfigError, match="size 32, not 48"):
        shrink_tree(tree, tmp_path / "small", 48)
    with pytest.raises(ConfigError, match="size=0"):
        shrink_tree(tree, tmp_path / "small", 0)
    with pytest.raises(InputError, match="no .jpg"):
        (tmp_path / "empty").mkdir()
        shrink_tree(tmp_path / "empty", tmp_path / "x")
    with pytest.raises(InputError, match="no such folder"):
        shrink_tree(tmp_path / "absent", tmp_path / "x")


def test_a_link_out_of_the_tree_is_not_followed(tree, tmp_path):
    secret = draw(tmp_path / "secret.jpg")
    (tree / "files" / "link.jpg").symlink_to(secret)
    with pytest.raises(InputError, match="1 of 5 images .*symbolic link"):
        shrink_tree(tree, tmp_path / "small", 32, workers=1)


@pytest.mark.slow
def test_a_killed_run_goes_on_and_leaves_the_same_files(tree, tmp_path):
    for number in range(300):
        draw(tree / "many" / f"{number}.jpg", 400, 400)
    command = f"""
from pathlib import Path
from mimic_cxr_vqa import shrinking
shrinking.PER_TASK = 4
shrinking.shrink_tree(Path({str(tree)!r}), Path({str(tmp_path / "small")!r}), 32, workers=1)
"""
    process = subprocess.Popen([sys.executable, "-c", command], start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "small").rglob("*.jpg"))) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "small" / "manifest.json").exists()
    shrink_tree(tree, tmp_path / "small", 32, workers=1)
    shrink_tree(tree, tmp_path / "whole", 32, workers=1)
    assert files(tmp_path / "small") == files(tmp_path / "whole")
    for name in files(tmp_path / "whole") - {"manifest.json"}:
        assert (tmp_path / "small" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_command_says_what_was_made_and_what_to_do_next(tree, tmp_path, capsys):
    assert run(["cxr", "shrink", "--root", str(tree), "--out", str(tmp_path / "small"), "--size", "32"]) == 0
    said = capsys.readouterr().out
    assert "governance class: open" in said and f"--image-root {tmp_path / 'small'}" in said
    assert shrinking.KIND in (tmp_path / "small" / "manifest.json").read_text()
