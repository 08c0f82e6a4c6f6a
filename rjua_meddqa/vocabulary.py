"""Words of printed reports, read from `vocabulary.yaml`. Patterns and rules are beside the code that uses them."""

from pathlib import Path
from typing import Any

from rjua_meddqa.data_files import read_mapping

VOCABULARY: dict[str, Any] = read_mapping(Path(__file__).with_name("vocabulary.yaml"))
