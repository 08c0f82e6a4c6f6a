"""From image paths in rows to image files on disk, with a policy for those that are missing, and counts.

Policies: `error` (stop at the first), `skip` (leave the row out), `none` (None in the image's place). A path that
leaves the root is an error under every policy. Broken files (zero bytes, cut short) are treated as missing ones.
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
# how `datasets` stores an image that is a file: decoded when a row is read
IMAGE_STORAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


class ImageFiles:
    """Resolves the `images` column of row tables; every file is looked at once.

    Args:
        root: folder that the paths in rows start from.
        policy: one of POLICIES.
        store: a second folder that links below `root` may lead into (git-annex, DVC).

    Attributes:
        counts: `images` looked at, `missing` among them, `rows_skipped`.

    Raises:
        ConfigError: `policy` is unknown.
        InputError: `root` is not a folder.
    """

    def __init__(self, root: Path, policy: str, store: Path | None = None) -> None:
        if policy not in POLICIES:
            raise ConfigError(f"missing_images={policy!r}: allowed are {', '.join(POLICIES)}")
        if not root.is_dir():
            raise InputError(f"image root {root}: no such folder; pass image_root=… (the folder that holds files/)")
        if store is not None and not store.is_dir():
            raise InputError(f"image store {store}: no such folder; pass image_store=… (where the images' links lead)")
        self.root, self.policy, self.store = root, policy, store
        self.counts: Counter[str] = Counter()
        self._known: dict[str, str | None] = {}  # path in rows -> file, None where missing

    def resolve(self, rows: pa.Table) -> pa.Table:
        """Replace `images` (paths) by files in the storage form of `datasets.Image`, and add `image_paths`.

        Raises:
            InputError: a path leaves the root, or (policy `error`) a file is missing or broken.
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
                raise InputError(f"{error}, or pass image_store=… (the folder that such links lead into)") from None
            raise

    def _find(self, path: str) -> str | None:
        if path not in self._known:
            file = self._locate(path)
            problem = check_image(file)
            if problem and self.policy == "error":
                raise InputError(
                    f"image {file} {problem}; get the image, check image_root, or pass missing_images='skip' or 'none'"
                )
            self.counts["images"] += 1
            self.counts["missing"] += problem is not None
            self._known[path] = None if problem else str(file)
        return self._known[path]
