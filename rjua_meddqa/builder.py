"""The `datasets` builder behind `load_dataset("rjua_meddqa", name, data_dir=…)`.

Configs: `entity`, `table` and `table_nr` (image-content questions by task), `questions` (all image-content questions),
`reasoning_mc` and `reasoning_sa` (clinical reasoning), `annotations` (a row per image), `contexts`, `chat` (all
questions as conversations for TRL), and `sample` (all questions of the bundled synthetic reports).

The only split is `test`. Rows refer to image files, which are decoded when the row is read.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from datasets import Features, Image, List, Value
from datasets.builder import Key

from medvqa_core.dataset_class import describe_dataset
from medvqa_core.errors import ConfigError, InputError, MedvqaError, one_line
from medvqa_core.loading_error import LoadingError
from medvqa_core.pillow_errors import PILLOW_ERRORS
from rjua_meddqa import data_folder as folders
from rjua_meddqa.chat_rows import CHAT_FEATURES, chat_rows
from rjua_meddqa.data_folder import SAMPLE_DIR
from rjua_meddqa.released import read_annotations, read_contexts, read_questions, read_reasoning
from rjua_meddqa.schema import ENTITY, MULTIPLE_CHOICE, SHORT_ANSWER, TABLE, TABLE_NR

logger = datasets.logging.get_logger(__name__)
ROWS_PER_TABLE = 1000
POLICIES = ("error", "skip", "none")
QUESTIONS, SAMPLE, CHAT = "questions", "sample", "chat"
CONTENT = {"entity": ENTITY, "table": TABLE, "table_nr": TABLE_NR}
REASONING = {"reasoning_mc": MULTIPLE_CHOICE, "reasoning_sa": SHORT_ANSWER}

_TEXT = Value("string")
_QUESTION = {name: _TEXT for name in ("img_path", "question", "answer", "task", "answer_type")}
_IMAGE = {"image": Image(), "image_type": _TEXT, "image_quality": _TEXT}
_CONTENT = _QUESTION | {"answer_length": Value("int32"), "is_table": Value("int32"), "unanswerable": Value("bool")}
_REASONING = _QUESTION | {"context": _TEXT, "context_id": _TEXT}
_ANNOTATION = {name: _TEXT for name in ("idx", "img_path", "report_type")} | {
    "key_values": List({"key": _TEXT, "value": _TEXT}),
    "table": List({name: _TEXT for name in ("item", "result", "range", "is_normal")}),
}
_FEATURES = {
    **dict.fromkeys((*CONTENT, QUESTIONS), _CONTENT | _IMAGE),
    **dict.fromkeys(REASONING, _REASONING | _IMAGE),
    "annotations": _ANNOTATION | _IMAGE,
    "contexts": {name: _TEXT for name in ("idx", "title", "context_type", "description")},
    CHAT: CHAT_FEATURES,
    SAMPLE: _CONTENT | _REASONING | _IMAGE,
}
_QUESTION_COLUMNS = (*_CONTENT, *_REASONING, "image_type", "image_quality")  # of both kinds of questions


@dataclass
class RjuaMeddqaConfig(datasets.BuilderConfig):
    """Options of `load_dataset("rjua_meddqa", …)`.

    Attributes:
        image_root: folder of the image paths. Defaults to `images/` of data_dir, then data_dir.
        missing_images: `error`, `skip` the row, or `none` as its image. The log has their number.
        fingerprint: of the folder's content, set by the builder, so that changed files are not served from the cache.
    """

    image_root: str | None = None
    missing_images: str = "error"
    fingerprint: str = ""


class RjuaMeddqa(datasets.ArrowBasedBuilder):
    """RJUA-MedDQA: questions about Chinese medical report images."""

    BUILDER_CONFIG_CLASS = RjuaMeddqaConfig
    BUILDER_CONFIGS = [RjuaMeddqaConfig(name=name) for name in _FEATURES]

    def __init__(
        self, cache_dir=None, dataset_name="rjua_meddqa", config_name=None, data_dir=None, image_root=None, **kwargs
    ) -> None:
        if kwargs.get("data_files"):
            raise ConfigError("data_files is not supported. Pass a folder as data_dir=…")
        if "turns" in kwargs:
            raise ConfigError("turns only applies to mimic_cxr_vqa. Leave it out.")
        if config_name == SAMPLE:
            data_dir, image_root = SAMPLE_DIR, None
        if config_name is None:
            raise ConfigError(
                f"the config is missing: load_dataset('rjua_meddqa', NAME, …). Allowed: {', '.join(_FEATURES)}."
            )
        if data_dir is None:
            raise ConfigError(
                "data_dir is missing. Pass the folder with the annotations, questions and images/, or load the config "
                f"{SAMPLE!r}. Configs: {', '.join(_FEATURES)}."
            )
        self.folder = folders.open_folder(Path(os.path.abspath(data_dir)))
        self.image_roots = folders.image_roots(
            self.folder.root, Path(os.path.abspath(image_root)) if image_root else None
        )
        self.files: dict[str, str | None] = {}  # img_path -> file
        self.skipped = 0
        super().__init__(
            cache_dir=cache_dir,
            dataset_name=dataset_name,
            config_name=config_name,
            data_dir=str(self.folder.root),
            image_root=os.path.abspath(image_root) if image_root else None,
            fingerprint=self._fingerprint(kwargs.get("missing_images", "error")),
            **kwargs,
        )
        if self.config.missing_images not in POLICIES:
            raise ConfigError(f"missing_images={self.config.missing_images!r}: allowed: {', '.join(POLICIES)}.")
        if config_name == CHAT and self.config.missing_images == "none":
            raise ConfigError(f"missing_images='none': the config {CHAT!r} supports 'error' and 'skip'.")

    def _fingerprint(self, missing_images: str) -> str:
        """A digest of the folder's files and, if images may be missing, of the existing images."""
        content = self.folder.fingerprint()
        if missing_images == "error":
            return content
        digest = hashlib.sha256(content.encode())
        for root, folders_, files in os.walk(self.image_roots[-1]):
            folders_.sort()
            for path in sorted(os.path.join(root, file) for file in files):
                digest.update(f"{path}\0{os.path.getsize(path) if os.path.exists(path) else 0}\0".encode())
        return digest.hexdigest()[:32]

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description=describe_dataset(f"RJUA-MedDQA from {self.folder.source}", self.folder.governance),
            features=Features(_FEATURES[self.config.name]),
        )

    def _split_generators(self, dl_manager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(datasets.Split.TEST, gen_kwargs={"name": self.config.name})]

    def _generate_tables(self, name: str) -> Iterator[tuple[Key, pa.Table]]:
        schema = self.info.features.arrow_schema
        self.files, self.skipped = {}, 0  # a stream can be read many times
        with_images = (self._add_image(row) if "img_path" in row else row for row in self._rows(name))
        rows = (row for row in with_images if row is not None)
        try:
            for number in count():
                batch = list(islice(rows, ROWS_PER_TABLE))
                if not batch and number == 0:
                    raise InputError(self._explain_empty(name))
                yield Key(0, number), chat_rows(batch) if name == CHAT else pa.Table.from_pylist(batch, schema=schema)
                if len(batch) < ROWS_PER_TABLE:
                    break
        except MedvqaError as error:
            raise LoadingError(one_line(error)) from None
        if missing := sum(file is None for file in self.files.values()):
            logger.warning(
                f"{name}: {missing} of {len(self.files)} images missing or broken, {self.skipped} rows skipped"
            )

    def _add_image(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Add a reference to the image file. Returns None if the row is skipped."""
        path = row["img_path"]
        if path not in self.files:
            self.files[path] = self._find_image(path)
        if self.files[path] is None and self.config.missing_images == "skip":
            self.skipped += 1
            return None
        return row | {"image": self.files[path] and {"bytes": None, "path": self.files[path]}}

    def _rows(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of a config, without images."""
        if name == "contexts":
            yield from map(asdict, read_contexts(self.folder.file(folders.CONTEXTS)))
        elif name == "annotations":
            yield from self._annotation_rows()
        if name in CONTENT or name in (QUESTIONS, SAMPLE) or name == CHAT and folders.QUESTIONS in self.folder.files:
            for question in read_questions(self.folder.file(folders.QUESTIONS)):
                if question.task == CONTENT.get(name, question.task):
                    columns = {column: getattr(question, column) for column in _CONTENT if column != "unanswerable"}
                    row = columns | {"unanswerable": bool(question.extra.get("unanswerable", False))}
                    yield self._complete(row | _image_columns(question))
        if name in REASONING or name == SAMPLE or name == CHAT and folders.REASONING in self.folder.files:
            for asked in read_reasoning(self.folder.file(folders.REASONING)):
                if asked.answer_type == REASONING.get(name, asked.answer_type):
                    yield self._complete(asdict(asked) | _image_columns(asked))

    def _annotation_rows(self) -> Iterator[dict[str, Any]]:
        for annotation in read_annotations(self.folder.file(folders.ANNOTATIONS)):
            yield {
                **{name: getattr(annotation, name) for name in ("idx", "img_path", "report_type")},
                "key_values": [{"key": key, "value": value} for key, value in annotation.key_values],
                "table": [asdict(row) for row in annotation.table],
                **_image_columns(annotation),
            }

    def _complete(self, row: dict[str, Any]) -> dict[str, Any]:
        """Fill the columns of the other kind of question with None."""
        columns = _QUESTION_COLUMNS if self.config.name == CHAT else self.info.features
        return {column: row.get(column) for column in columns if column != "image"}

    def _explain_empty(self, name: str) -> str:
        if self.skipped:
            return (
                f"{self.folder.root}: all {self.skipped} rows of {name!r} were skipped, since their images are missing."
            )
        return f"{self.folder.root} does not contain rows of {name!r}. Generate some, or load another config."

    def _find_image(self, path: str) -> str | None:
        file = folders.find_image(self.image_roots, path, f"{self.folder.root}, image")
        problem = "no such file" if file is None else _problem(file)
        if problem and self.config.missing_images == "error":
            raise InputError(
                f"image {path!r} below {self.image_roots[0]}: {problem}. Copy the image, pass image_root=…, "
                "or missing_images='skip' or 'none'."
            )
        return None if problem else str(file)


def _image_columns(row: Any) -> dict[str, str]:
    """Type and quality in lower case. Released question files write PDF and High."""
    return {name: getattr(row, name).strip().lower() for name in ("image_type", "image_quality")}


def _problem(file: Path) -> str | None:
    """Why `file` cannot be opened as an image, or None. Only its header is read."""
    import PIL.Image

    try:
        with PIL.Image.open(file):
            return None
    except PILLOW_ERRORS as error:
        return f"not an image ({type(error).__name__})"
