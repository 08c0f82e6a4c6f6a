"""Resolves the image paths of rows to files on disk, with a policy for missing images.

Policies: `error` (stop at the first), `skip` (drop the row), `none` (None in place of the image). Empty and truncated
files count as missing. A path that leaves the root is always an error.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import join_under
from mimic_cxr_vqa.images import check_image

POLICIES = ("error", "skip", "none")
# how `datasets` stores an image file, which is decoded when a row is read
IMAGE_STORAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


class ImageFiles:
    """Resolves the `images` column of row tables. Each file is checked once.

    Args:
        root: folder that the paths in rows start from.
        policy: one of POLICIES.
        store: a second folder that links below `root` may point into (git-annex, DVC).

    Attributes:
        counts: `images` checked, `missing` among them, `rows_skipped`.

    Raises:
        ConfigError: `policy` is unknown.
        InputError: `root` is not a folder.
    """

    def __init__(self, root: Path, policy: str, store: Path | None = None) -> None:
        if policy not in POLICIES:
            raise ConfigError(f"missing_images={policy!r}: allowed are {', '.join(POLICIES)}")
        if not root.is_dir():
            raise InputError(f"image root {root}: no such folder. Pass image_root=… (the folder that holds files/)")
        if store is not None and not store.is_dir():
            raise InputError(
                f"image store {store}: no such folder. Pass image_store=… (where the images' links point to)"
            )
        self.root, self.policy, self.store = root, policy, store
        self.counts: Counter[str] = Counter()
        self._known: dict[str, str | None] = {}  # path in rows -> file, None if missing

    def resolve(self, rows: pa.Table) -> pa.Table:
        """Replace the paths in `images` by files as `datasets.Image` stores them, and add `image_paths`.

        Raises:
            InputError: a path leaves the root, or a file is missing or broken (policy `error`).
        """
        paths = rows["images"].combine_chunks()
        unique = pc.unique(paths.flatten())
        files = pa.array([self._find(path) for path in unique.to_pylist()], pa.string())
        file = files.take(pc.index_in(paths.flatten(), unique))
        storage = pa.StructArray.from_arrays(
            [pa.nulls(len(file), pa.binary()), file], fields=list(IMAGE_STORAGE), mask=pc.is_null(file)
        )
        lengths = pc.fill_null(pc.list_value_length(paths), 0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        images = pa.ListArray.from_arrays(pa.array(offsets), storage)
        rows = rows.set_column(rows.schema.get_field_index("images"), "images", images).append_column(
            "image_paths", paths
        )
        if self.policy == "skip" and file.null_count:
            missing = np.concatenate([[0], np.cumsum(pc.is_null(file).to_numpy(False))])
            complete = missing[offsets[1:]] == missing[offsets[:-1]]
            self.counts["rows_skipped"] += int(len(complete) - complete.sum())
            rows = rows.filter(pa.array(complete))
        return rows

    def _locate(self, path: str) -> Path:
        try:
            return join_under(self.root, path, f"image {path}", self.store)
        except InputError as error:
            if self.store is None and (self.root / path).is_symlink():
                raise InputError(f"{error}, or pass image_store=… (the folder that such links point into)") from None
            raise

    def _find(self, path: str) -> str | None:
        if path not in self._known:
            file = self._locate(path)
            problem = check_image(file)
            if problem and self.policy == "error":
                raise InputError(
                    f"image {file} {problem}. Get it, check image_root, or pass missing_images='skip' or 'none'"
                )
            self.counts["images"] += 1
            self.counts["missing"] += problem is not None
            self._known[path] = None if problem else str(file)
        return self._known[path]
