"""The registry of bundled engines that do not need a language model."""

from collections.abc import Callable

from medvqa_core.llm.engines import Engine
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine

ENGINES: dict[str, Callable[[], Engine]] = {"extractive": ExtractiveEngine}
