"""The builder of `import mimic_cxr_vqa` and then `load_dataset("mimic_cxr_vqa", config, data_dir=…, image_root=…)`.

Without that import, `datasets` looks for a Hub repository of this name: it does not have an entry point for builders.
`load_dataset("out/cxr/release")` reads the rows of a release without it.

Configs: `default` (a row per question with its answer), `studies` (a row per study with its images and all its
questions), `questions` (a row per question without answers), `chat` (conversations for TRL), `sample` (bundled,
synthetic). The builder turns the rows of a release (`release.py`) into tables, resolves images and checks whole splits.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
from datasets.builder import Key
from datasets.exceptions import DatasetGenerationError

from medvqa_core.dataset_class import describe_dataset
from medvqa_core.errors import ConfigError, InputError, MedvqaError, one_line
from medvqa_core.files import make_folder, output_errors
from medvqa_core.loading_error import LoadingError
from mimic_cxr_vqa import release as releases
from mimic_cxr_vqa.authors_csv import ReplyFilter
from mimic_cxr_vqa.card import HUB_SPLITS
from mimic_cxr_vqa.chat_rows import TURNS, answered, chat_features, chat_rows
from mimic_cxr_vqa.image_files import ImageFiles
from mimic_cxr_vqa.parquet_files import read_table
from mimic_cxr_vqa.row_checks import RowChecks, check_policy
from mimic_cxr_vqa.schema import QA_SCHEMA, QUESTION_SCHEMA
from mimic_cxr_vqa.study_rows import STUDY_ROW_SCHEMA, group_by_study, whole_studies
from mimic_cxr_vqa.workspace import SAMPLE_DIR

logger = datasets.logging.get_logger(__name__)
ROWS_PER_TABLE = 16_384
CHAT = "chat"


@dataclass
class MimicCxrVqaConfig(datasets.BuilderConfig):
    """Options of `load_dataset("mimic_cxr_vqa", …)`.

    Attributes:
        image_root: folder of the images, such as MIMIC-CXR-JPG. With it, `images` are PIL images that are decoded when
            a row is read. Without it, `images` are paths. Default: the variable MIMIC_CXR_JPG_ROOT.
        image_store: a second folder that links below image_root may point into (git-annex, DVC). Default: the variable
            MIMIC_CXR_JPG_STORE.
        missing_images: `error`, `skip` the row, or `none` in place of the image. The number is logged.
        failed_answers: `drop` or `keep` the authors' rows whose reply could not be parsed (answer "error").
        duplicates: keep the `first` row of a repeated question, or raise an `error`. Default: `first` for the authors'
            files, otherwise `error`.
        turns: for the config `chat`, a conversation per `question` or per `study`.
        fingerprint: of the release's content, which keeps a rebuilt release out of the cache. Set by the builder.
    """

    image_root: str | None = None
    image_store: str | None = None
    missing_images: str = "error"
    failed_answers: str = "drop"
    duplicates: str | None = None
    turns: str = "question"
    fingerprint: str = ""


class MimicCxrVqa(datasets.ArrowBasedBuilder):
    """MIMIC-CXR-VQA: questions and answers about chest radiographs."""

    BUILDER_CONFIG_CLASS = MimicCxrVqaConfig
    BUILDER_CONFIGS = [
        MimicCxrVqaConfig(name="default", description="A row per question with its answer."),
        MimicCxrVqaConfig(name="studies", description="A row per study with its images and all its questions."),
        MimicCxrVqaConfig(name="questions", description="A row per question, without answers."),
        MimicCxrVqaConfig(name="chat", description="A conversation per question or study, for TRL's trainers."),
        MimicCxrVqaConfig(name="sample", description="Bundled synthetic studies."),
    ]
    DEFAULT_CONFIG_NAME = "default"
    DEFAULT_WRITER_BATCH_SIZE = ROWS_PER_TABLE

    def __init__(
        self, cache_dir=None, dataset_name="mimic_cxr_vqa", config_name=None, data_dir=None, image_root=None,
        image_store=None, **kwargs,
    ) -> None:  # fmt: skip
        if config_name == "sample":
            data_dir = image_root = SAMPLE_DIR
        self.release = releases.open_release(Path(data_dir) if data_dir else releases.find_default_release())
        image_root = image_root or os.environ.get(releases.IMAGE_VARIABLE)
        image_store = image_store or os.environ.get(releases.STORE_VARIABLE)
        self.images: ImageFiles | None = None
        self.patients: dict[str, np.ndarray] = {}  # split -> the patients read so far
        if kwargs.get("data_files"):
            raise ConfigError("data_files is not supported by this dataset. Pass data_dir=… (a folder) and split=…")
        super().__init__(
            cache_dir=cache_dir,
            dataset_name=dataset_name,
            config_name=config_name,
            data_dir=os.path.abspath(self.release.folder),
            image_root=os.path.abspath(image_root) if image_root else None,
            image_store=os.path.abspath(image_store) if image_root and image_store else None,
            fingerprint=self.release.fingerprint,
            **kwargs,
        )
        if self.release.governance.private:
            make_folder(Path(self._output_dir).parent, private=True)  # it will contain report text
        if self.config.failed_answers not in ("drop", "keep"):
            raise ConfigError(f"failed_answers={self.config.failed_answers!r}: allowed are drop and keep")
        check_policy(self.config.duplicates or self.release.duplicates)
        self._check_chat()

    def _check_chat(self) -> None:
        if self.config.turns not in TURNS:
            raise ConfigError(f"turns={self.config.turns!r}: allowed are {' and '.join(TURNS)}")
        if self.config.name != CHAT:
            if self.config.turns != TURNS[0]:
                raise ConfigError(f"turns={self.config.turns!r} only applies to the config {CHAT!r}")
            return
        if not self.config.image_root:
            raise ConfigError(
                f"the config {CHAT!r} needs images. Pass image_root=… (the folder that image paths start from) or set "
                f"{releases.IMAGE_VARIABLE}"
            )
        if self.config.missing_images == "none":
            raise ConfigError(f"missing_images='none': the config {CHAT!r} supports 'error' and 'skip'")

    def _info(self) -> datasets.DatasetInfo:
        source = self.release.manifest.get("source", "the authors' release")
        schema = {"studies": STUDY_ROW_SCHEMA, "questions": QUESTION_SCHEMA}.get(self.config.name, QA_SCHEMA)
        features = datasets.Features.from_arrow_schema(schema)
        if self.config.name == CHAT:
            features = chat_features(self.config.turns)
        elif self.config.image_root:
            features["images"] = datasets.List(datasets.Image())
            features["image_paths"] = datasets.List(datasets.Value("string"))
        return datasets.DatasetInfo(
            description=describe_dataset(f"MIMIC-CXR-VQA from {source}", self.release.governance),
            features=features,
        )

    def _split_generators(self, dl_manager) -> list[datasets.SplitGenerator]:
        if self.release.kind == "questions" and self.config.name != "questions":
            raise LoadingError(
                f"{self.release.folder} has questions but no answers. Run medvqa-hub cxr answer and release, or load "
                "the config 'questions'"
            )
        if self.config.image_root:
            prefix = releases.find_image_prefix(Path(self.config.image_root))
            store = Path(self.config.image_store) if self.config.image_store else None
            self.images = ImageFiles(prefix, self.config.missing_images, store)
        generators = []
        for split, files in self.release.files.items():
            studies: Sequence[Path | None] = self.release.studies.get(split) or [None] * len(files)
            shards = [(str(file), study and str(study)) for file, study in zip(files, studies, strict=True)]
            generators.append(datasets.SplitGenerator(HUB_SPLITS[split], gen_kwargs={"split": split, "shards": shards}))
        return generators

    def _generate_tables(self, split: str, shards: list[tuple[str, str | None]]) -> Iterator[tuple[Key, pa.Table]]:
        checks = RowChecks(self.patients, self.config.duplicates or self.release.duplicates)
        where = ", ".join(file for file, _ in shards)
        tables, unanswered, replies = 0, 0, ReplyFilter()
        try:
            for shard, (file, studies) in enumerate(shards):
                rows = self.release.iterate(split, Path(file))
                if self.config.failed_answers == "drop" and self.config.name != "questions":
                    rows = replies.keep(rows)  # before the checks, because a failed reply may be followed by a good one
                rows = map(checks.add, rows)
                for number, table in enumerate(self._tables(rows, studies)):
                    tables += 1
                    if self.images:
                        table = self.images.resolve(table)
                    if self.config.name == CHAT:
                        unanswered += len(table) - len(table := answered(table))
                        table = chat_rows(table, self.config.turns)
                    yield Key(shard, number), table
            if not tables:
                raise InputError(f"{where}: no rows found. Remove the file or copy it again")
            checks.finish_split(split, where)
        except GeneratorExit:  # an unfinished stream: at interpreter exit the names below may already be gone
            raise
        except MedvqaError as error:
            raise LoadingError(one_line(error)) from None
        left_out = {
            "whose reply could not be parsed (failed_answers='keep' keeps them)": replies.left_out,
            "with repeated questions (duplicates='error' raises instead)": checks.left_out,
            "without an answer": unanswered,
        }
        for what, count in left_out.items():
            if count:
                logger.warning(f"{HUB_SPLITS[split]}: left out {count} rows {what}")
        if self.images:
            if self.images.counts["missing"]:
                logger.warning(f"{HUB_SPLITS[split]}: missing images: {dict(self.images.counts)}")
            self.images.counts.clear()

    def _tables(self, rows: Iterable[pa.RecordBatch], studies: str | None) -> Iterator[pa.Table]:
        """The rows of one shard in the form of this config."""
        if self.config.name == "studies":
            table = read_table(Path(studies)) if studies else None
            for whole in whole_studies(rows):
                yield group_by_study(whole, table)
        elif self.config.name == "questions":
            for batch in rows:
                yield pa.Table.from_batches([batch.select(QUESTION_SCHEMA.names)])
        elif self.config.turns == "study":
            yield from whole_studies(rows)
        else:
            for batch in rows:
                yield pa.Table.from_batches([batch])

    def _prepare_split(self, split_generator, file_format="arrow", num_proc=None, max_shard_size=None) -> None:
        if self.release.kind == "csv":
            num_proc = None  # the checks need all rows, and parsing has its own thread
        super()._prepare_split(split_generator, file_format, num_proc=num_proc, max_shard_size=max_shard_size)
        if not split_generator.split_info.num_examples and self.images:
            raise LoadingError(
                f"{split_generator.name}: no row has its images below {self.images.root}. Check image_root, or pass "
                "missing_images='none'"
            )

    def download_and_prepare(self, *args, **kwargs) -> None:
        if self.config.image_root and self.config.missing_images != "error" and os.path.exists(self._output_dir):
            logger.warning(
                "these rows come from the cache, which ignores later changes of the images. "
                "Pass download_mode='force_redownload' to check again"
            )
        try:
            with output_errors(self._output_dir):
                super().download_and_prepare(*args, **kwargs)
        except DatasetGenerationError as error:
            failed_write = error.__cause__  # `datasets` wraps errors of writing
            if isinstance(error, MedvqaError) or not isinstance(failed_write, OSError):
                raise
            with output_errors(self._output_dir):
                raise failed_write from None

    def as_dataset(self, split=None, **kwargs):
        self.info.description = self._info().description  # with the current class, not the cached one
        return super().as_dataset(split=_hub_split(split), **kwargs)

    def as_streaming_dataset(self, split=None, **kwargs):
        self.info.description = self._info().description
        return super().as_streaming_dataset(split=_hub_split(split), **kwargs)


def _hub_split(split):
    """Translate MIMIC's name of the validation split, also in lists and dicts: `validate[:10]` -> `validation[:10]`."""
    if isinstance(split, dict):
        return {name: _hub_split(part) for name, part in split.items()}
    if isinstance(split, list | tuple):
        return [_hub_split(part) for part in split]
    return re.sub(r"\bvalidate\b", "validation", split) if isinstance(split, str) else split
