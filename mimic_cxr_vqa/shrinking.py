"""Copies an image tree with smaller images, which training reads many times faster (`docs/training.md`).

    OUT/files/p10/p10000032/s50414267/<dicom>.jpg    grey, shorter side `size`, JPEG (PNG stays PNG)
    OUT/shrunk.json                                  size, quality and class, written before the first image
    OUT/manifest.json                                the same with counts, written last

OUT has the paths of its source and can be passed as --image-root. The copies have the class of their source, and
copies of MIMIC are readable by their owner only.

An interrupted run can be resumed. A copy has the modification time of its source, so changed sources are copied again.
"""

import io
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import MANIFEST, atomic_file, join_under, make_folder, output_errors, resolve_links
from medvqa_core.governance import Governance, check_not_lowered, parse
from medvqa_core.json_files import read_object, write_json
from medvqa_core.progress import track
from mimic_cxr_vqa.images import FILM_SIDE, read_film
from mimic_cxr_vqa.sources import openi
from mimic_cxr_vqa.sources.pieces import is_marked_synthetic

KIND, MARKER = "shrunk-images", "shrunk.json"
FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
QUALITY = 95
PER_TASK = 64  # images
REMEDY = "delete it, or choose another folder"
_MIMIC = re.compile(r"(^|/)(p1\d{7}|s5\d{7})(/|$)")  # folder of a patient or study


def shrink_tree(root: Path, out: Path, size: int = FILM_SIDE, workers: int | None = None) -> dict[str, Any]:
    """Write every image below `root` to the same path below `out`, with its shorter side shrunk to `size`.

    Args:
        root: folder of images, such as MIMIC-CXR-JPG's. Smaller images keep their size.
        out: a folder outside of `root`.
        workers: number of processes. Default: one per core.

    Returns:
        The manifest, with the counts `images` and `written` (by this run).

    Raises:
        ConfigError: `out` is inside `root`, or holds something else or copies of another size.
        GovernanceError: `out` has a stricter class than `root`.
        InputError: `root` lacks images, or some could not be read. The others are written first.
        OutputError: `out` cannot be written.
    """
    if size < 1:
        raise ConfigError(f"size={size}: expected at least 1 pixel")
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. Name the one that holds files/")
    target, source = resolve_links(out), resolve_links(root)
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise ConfigError(f"{out} and {root} overlap: one is inside the other. Choose a folder outside of {root}")
    paths = sorted(_images_below(root))
    if not paths:
        raise InputError(f"{root} has no {', '.join(FORMATS)} files. Name the folder that holds files/")
    governance = get_tree_governance(root, paths)
    settings = {"kind": KIND, "governance": str(governance), "size": size, "quality": QUALITY}
    _open_folder(out, settings)
    tasks = [paths[start : start + PER_TASK] for start in range(0, len(paths), PER_TASK)]
    work = partial(_shrink, root, out, size, governance.private)
    written = 0
    problems: list[str] = []
    with ProcessPoolExecutor(workers) as pool:
        try:
            for done, failed in track(pool.map(work, tasks), f"Shrinking {len(paths):,} images", len(tasks)):
                written, problems = written + done, problems + failed
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # start no further images when interrupted
    if problems:
        raise InputError(
            f"{len(problems)} of {len(paths)} images cannot be read, such as: {problems[0]}. The others are in {out}. "
            "Repair these and run the same command again"
        )
    manifest = {**settings, "counts": {"images": len(paths), "written": written}}
    write_json(out / MANIFEST, manifest, private=governance.private)
    return manifest


def get_tree_governance(root: Path, paths: list[str]) -> Governance:
    """Return the class of a tree's images.

    Paths with an id of MIMIC's range are credentialed. Otherwise shrunk trees, synthetic trees and Open-i are
    recognised by their files, and everything else is credentialed.
    """
    if any(_MIMIC.search(path) for path in paths):
        return Governance.CREDENTIALED
    if (root / MARKER).exists():
        found = read_object(root / MARKER, REMEDY)
        return parse(str(found.get("governance")), str(root / MARKER))
    if is_marked_synthetic(root):
        return Governance.OPEN
    return openi.GOVERNANCE if (root / openi.PROJECTIONS).exists() else Governance.CREDENTIALED


def _images_below(root: Path) -> Iterator[str]:
    """Paths of all images relative to `root`, without hidden ones."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if Path(name).suffix.lower() in FORMATS and not name.startswith("."):
                yield Path(folder, name).relative_to(root).as_posix()


def _open_folder(out: Path, settings: dict[str, Any]) -> None:
    """Create `out`, or check that it belongs to a run with the same settings."""
    governance = Governance(settings["governance"])
    if (out / MARKER).exists():
        before = read_object(out / MARKER, REMEDY)
        check_not_lowered(parse(str(before.get("governance")), str(out / MARKER)), governance, str(out))
        differing = [name for name in ("size", "quality") if before.get(name) != settings[name]]
        if differing:
            name = differing[0]
            raise ConfigError(f"{out} has images of {name} {before.get(name)}, not {settings[name]}; {REMEDY}")
    elif out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty and does not hold shrunk images. Choose another folder")
    make_folder(out)
    with output_errors(out):
        (out / MANIFEST).unlink(missing_ok=True)
        if governance.private:
            out.chmod(0o700)
    write_json(out / MARKER, settings, private=governance.private)


def _shrink(root: Path, out: Path, size: int, private: bool, paths: list[str]) -> tuple[int, list[str]]:
    """Write the missing copies of `paths`. Returns their number, and the errors of images that cannot be read."""
    written, problems = 0, []
    for path in paths:
        try:
            source, target = join_under(root, path, f"image {path}"), join_under(out, path, f"image {path}")
            changed = source.stat().st_mtime_ns
            if target.exists() and target.stat().st_mtime_ns == changed:
                continue
            picture = io.BytesIO()
            read_film(source, size).save(picture, FORMATS[target.suffix.lower()], quality=QUALITY)
        except (InputError, OSError) as error:
            problems.append(str(error))
            continue
        with atomic_file(target, private=private) as file:
            file.write(picture.getvalue())
            file.flush()
            os.utime(file.fileno(), ns=(changed, changed))
        written += 1
    return written, problems
