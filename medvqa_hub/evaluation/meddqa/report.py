"""`evaluate meddqa-report`: Tables 5 to 8, hallucination rates and errors by cause of several runs.

OUT/tables.md, tables.csv   the tables, with the paper's rows
OUT/manifest.json           kind and governance class, the strictest of the runs
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from medvqa_core.errors import ConfigError, OutputError
from medvqa_core.files import atomic_file, make_folder
from medvqa_core.governance import strictest
from medvqa_core.json_files import find_manifest, write_manifest
from medvqa_hub.evaluation.meddqa.tables import build_tables, read_run, to_markdown, to_records
from medvqa_hub.evaluation.run_class import check_stated

KIND, FORMAT = "meddqa-report", 1
TABLES_MD, TABLES_CSV = "tables.md", "tables.csv"


def write_report(runs: Sequence[Path], out: Path) -> list[str]:
    """Write the tables, and return lines to print.

    Raises:
        ConfigError: `runs` is empty.
        InputError: results cannot be read.
        OutputError: `out` cannot be written, or contains something else.
    """
    if not runs:
        raise ConfigError("No run is given. Name folders that evaluate meddqa wrote.")
    results = [read_run(run) for run in runs]
    governance = strictest(check_stated(Path(run["folder"]), run["governance"]) for run in results)
    tables = build_tables(results)
    make_folder(out, governance.private)
    if find_manifest(out, "choose another folder").get("kind", KIND) != KIND:
        raise OutputError(f"{out} contains the result of another command. Choose another folder.")
    manifest = {"kind": KIND, "format": FORMAT, "governance": str(governance)}
    write_manifest(out, manifest, private=governance.private)  # before the files that it describes
    records = io.StringIO(newline="")
    csv.writer(records).writerows(to_records(tables))
    markdown = to_markdown(tables)
    for name, text in ((TABLES_MD, markdown), (TABLES_CSV, records.getvalue())):
        with atomic_file(out / name, "w", governance.private) as file:
            file.write(text)
    return [markdown, f"tables: {out / TABLES_MD} ({governance})"]
