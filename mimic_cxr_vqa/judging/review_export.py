"""`cxr review export`: draw a sample, blind it, and write the files for each rater (see `review` for the layout)."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_folder, join_under, make_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_json, write_manifest
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.judging.pairs import Pair
from mimic_cxr_vqa.judging.review import FOR_RATERS, FORMAT, ITEMS, KEY, KIND, RATINGS, KeyEntry, ReviewItem
from mimic_cxr_vqa.judging.review_sheets import write_csv_sheet, write_xlsx_sheet
from mimic_cxr_vqa.judging.review_tasks import labelling_config, make_tasks
from mimic_cxr_vqa.judging.sampling import draw_sample, shuffle


def export_review(
    folder: Path,
    pairs: Sequence[Pair],
    governance: Governance,
    items: int,
    raters: int,
    seed: int = 0,
    judge: str | None = None,
    stratum_of: Callable[[Pair], str] | None = None,
    image_prefix: Path | None = None,
) -> dict[str, int]:
    """Write a review sample to `folder`, deterministically.

    Args:
        pairs: the population.
        judge: the judge whose verdicts `stratum_of` uses.
        image_prefix: the root of the pairs' image paths, or None to leave out the images.

    Returns:
        The number of pairs in each stratum.

    Raises:
        ConfigError: there are fewer pairs than `items`, or the sample in `folder` already has ratings.
        InputError: an image is missing.
        OutputError: `folder` cannot be written.
    """
    if (folder / RATINGS).is_dir() and any((folder / RATINGS).glob("*.json*")):
        raise ConfigError(f"{folder} already contains ratings. Move it away first.")
    drawn, strata = draw_sample(pairs, items, seed, stratum_of)
    width = max(3, len(str(items)))
    ids = [f"item-{number:0{width}}" for number in range(1, items + 1)]
    names = [f"rater-{number}" for number in range(1, raters + 1)]
    orders = {name: shuffle(ids, seed, name) for name in names}
    with atomic_folder(folder, KIND, private=True) as new:
        shown, entries = [], []
        for item, one in zip(ids, drawn, strict=True):
            asked, paths = one.pair.request, one.pair.images
            images = _copy_images(new, item, paths, image_prefix, governance.private) if image_prefix else ()
            texts = (asked.indication, asked.findings, asked.question, one.pair.answer)
            shown.append(ReviewItem(item, *texts, images))
            entries.append(KeyEntry(item, one.pair.id, asked.study_id, one.stratum, one.inclusion_probability))
        write_json(new / ITEMS, [asdict(item) for item in shown], private=governance.private)
        write_json(new / KEY, {"items": [asdict(entry) for entry in entries]}, private=True)
        by_id = {item.item: item for item in shown}
        for name, order in orders.items():
            _write_for_rater(new / FOR_RATERS / name, name, [by_id[item] for item in order], governance)
        manifest = {
            "kind": KIND,
            "format": FORMAT,
            "governance": str(governance),
            "seed": seed,
            "judge": judge,
            "strata": strata,
            "dimensions": {name: list(dimension.categories) for name, dimension in DIMENSIONS.items()},
            "orders": orders,
        }
        write_manifest(new, manifest)
    return strata


def _copy_images(folder: Path, item: str, paths: Sequence[str], prefix: Path, private: bool) -> tuple[str, ...]:
    """Copy the item's images under names that do not reveal patient or study."""
    make_folder(folder / "images")
    names = []
    for number, path in enumerate(paths, start=1):
        source = join_under(prefix, path, f"images of {item}")
        name = f"images/{item}-{number}{source.suffix.lower()}"
        try:
            shutil.copyfile(source, folder / name)
            if private:
                (folder / name).chmod(0o600)
        except OSError as error:
            raise InputError(f"{source} cannot be read ({error.strerror}). Check --image-root.") from None
        names.append(name)
    return tuple(names)


def _write_for_rater(folder: Path, rater: str, items: Sequence[ReviewItem], governance: Governance) -> None:
    private = governance.private
    write_csv_sheet(folder / "sheet.csv", rater, items, private)
    write_xlsx_sheet(folder / "sheet.xlsx", rater, items, private)
    write_json(folder / "tasks.json", make_tasks(rater, items, governance), private=private)
    config = labelling_config(with_images=any(item.images for item in items))
    (folder / "labelling.xml").write_text(config, encoding="utf-8")
