"""The contents of synthetic reports, from `contents.yaml`."""

from pathlib import Path

from rjua_meddqa.data_files import read_mapping

CONTENTS = read_mapping(Path(__file__).with_name("contents.yaml"))
