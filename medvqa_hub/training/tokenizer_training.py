"""`train tokenizer`: SwinVED's tokenizer from the questions and answers of a release."""

from pathlib import Path

from medvqa_core.files import atomic_folder
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_manifest
from medvqa_hub.families.swin_ved import SwinVedSettings, train_tokenizer
from medvqa_hub.training.recipes import DataSettings
from medvqa_hub.training.training_data import load_data

KIND = "tokenizer"


def write_tokenizer(
    data: Path, out: Path, vocab_size: int | None = None, min_frequency: int = 1, split: str = "train"
) -> tuple[int, Governance]:
    """Train and save a tokenizer. Returns the number of its tokens and the governance class of the data.

    Raises:
        InputError: no release, or no such split.
        ConfigError: the limits leave no word.
        OutputError: `out` cannot be written, or holds something else.
    """
    rows = load_data(data, None, DataSettings(train_split=split, validation_split=None), images=False)
    tokenizer = train_tokenizer(SwinVedSettings(vocab_size=vocab_size, min_frequency=min_frequency), rows.texts())
    with atomic_folder(out, KIND, private=rows.governance.private) as folder:
        tokenizer.save_pretrained(folder)
        write_governance(folder, rows.governance)
        manifest = {"kind": KIND, "governance": str(rows.governance), "data": rows.fingerprint, "split": split}
        write_manifest(folder, manifest, indent=2)
    return len(tokenizer), rows.governance
