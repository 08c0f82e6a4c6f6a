"""A copy of an image tree with small images: the same paths below the root, each image shrunk as training reads it.

    OUT/files/p10/p10000032/s50414267/<dicom>.jpg    grey, shorter side `size`, JPEG (PNG stays PNG)
    OUT/shrunk.json                                  size, quality and class; written before the first image
    OUT/manifest.json                                the same with counts; written last

Reading a full-size film costs many times what its small copy costs, in every epoch (`docs/training.md`). OUT is an
image root like its source: pass it as --image-root. The copies have the class of their source; those of MIMIC are
readable by their owner alone.

A stopped run goes on: a copy is whole, since it appears by rename, and carries its source's time of modification, so a
source that has changed since is shrunk again.
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

KIND, MARKER, PHANTOM = "shrunk-images", "shrunk.json", "phantom.json"
FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
QUALITY = 95
PER_TASK = 64  # images that a process is given at a time
REMEDY = "delete it, or choose another folder"
_MIMIC = re.compile(r"(^|/)(p1\d{7}|s5\d{7})(/|$)")  # a patient's or a study's folder


def shrink_tree(root: Path, out: Path, size: int = FILM_SIDE, workers: int | None = None) -> dict[str, Any]:
    """Write every image below `root` to the same path below `out`, its shorter side shrunk to `size`.

    Args:
        root: folder of images, such as MIMIC-CXR-JPG's. Images that are smaller already keep their size.
        out: another folder, outside of `root`.
        workers: processes; None: one per core.

    Returns:
        The manifest, with the counts `images` and `written` (by this run).

    Raises:
        ConfigError: `out` lies in `root`, or holds something else or copies of another size.
        GovernanceError: `out` is of a stricter class than `root`.
        InputError: `root` has no images; or, when all others are written, some could not be read.
        OutputError: `out` cannot be written.
    """
    if size < 1:
        raise ConfigError(f"size is {size}; allowed are 1 pixel and more")
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; name the one that holds files/")
    target, source = resolve_links(out), resolve_links(root)
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise ConfigError(f"{out} and {root} lie in one another; choose a folder outside of the source's")
    paths = sorted(_images_below(root))
    if not paths:
        raise InputError(f"{root}: no {', '.join(FORMATS)} below it; name the folder that holds files/")
    governance = get_tree_governance(root, paths)
    settings = {"kind": KIND, "governance": str(governance), "size": size, "quality": QUALITY}
    _open_folder(out, settings)
    tasks = [paths[start : start + PER_TASK] for start in range(0, len(paths), PER_TASK)]
    work = partial(_shrink, root, out, size, governance.private)
    written, problems = 0, []
    with ProcessPoolExecutor(workers) as pool:
        try:
            for done, failed in track(pool.map(work, tasks), f"Shrinking {len(paths):,} images", len(tasks)):
                written, problems = written + done, problems + failed
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # a stopped run begins no further images
    if problems:
        raise InputError(
            f"{len(problems)} of {len(paths)} images cannot be shrunk, such as: {problems[0]}. The others are in "
            f"{out}; run the same command again afterwards"
        )
    manifest = {**settings, "counts": {"images": len(paths), "written": written}}
    write_json(out / MANIFEST, manifest, private=governance.private)
    return manifest


def get_tree_governance(root: Path, paths: list[str]) -> Governance:
    """The class of a tree's images: MIMIC's where a path has one of its ids, whatever the folder says of itself; else
    what a shrunk tree carries, a drawn one's or Open-i's; and `credentialed` where nothing tells."""
    if any(_MIMIC.search(path) for path in paths):
        return Governance.CREDENTIALED
    if (root / MARKER).exists():
        found = read_object(root / MARKER, REMEDY)
        return parse(str(found.get("governance")), str(root / MARKER))
    if (root / PHANTOM).exists() and read_object(root / PHANTOM, REMEDY).get("source") == "phantom":
        return Governance.OPEN
    return openi.GOVERNANCE if (root / openi.PROJECTIONS).exists() else Governance.CREDENTIALED


def _images_below(root: Path) -> Iterator[str]:
    """Paths of all images, relative to `root`; names that start with a dot are left out."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if Path(name).suffix.lower() in FORMATS and not name.startswith("."):
                yield Path(folder, name).relative_to(root).as_posix()


def _open_folder(out: Path, settings: dict[str, Any]) -> None:
    """Make `out` the folder of this run, or check that it is."""
    governance = Governance(settings["governance"])
    if (out / MARKER).exists():
        before = read_object(out / MARKER, REMEDY)
        check_not_lowered(parse(str(before.get("governance")), str(out / MARKER)), governance, str(out))
        differing = [name for name in ("size", "quality") if before.get(name) != settings[name]]
        if differing:
            name = differing[0]
            raise ConfigError(f"{out} has images of {name} {before.get(name)}, not {settings[name]}; {REMEDY}")
    elif out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} holds other things than shrunk images; choose an empty folder")
    make_folder(out)
    with output_errors(out):
        (out / MANIFEST).unlink(missing_ok=True)
        if governance.private:
            out.chmod(0o700)
    write_json(out / MARKER, settings, private=governance.private)


def _shrink(root: Path, out: Path, size: int, private: bool, paths: list[str]) -> tuple[int, list[str]]:
    """Shrink `paths` unless their copies are there; how many were written, and what cannot be read."""
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
