"""Writes the bundled font, a subset of Noto Sans CJK with the characters in this package.

    python -m rjua_meddqa.font_writer /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc

The Open Font License requires another name for a changed font.
"""

import ast
import sys
from pathlib import Path

from rjua_meddqa.fonts import BUNDLED

NAME = "MedVQA Report Sans"
_PACKAGE = Path(__file__).parent
_SIMPLIFIED = 2  # the face of the collection
_FAMILY, _FULL, _POSTSCRIPT, _UNIQUE, _TYPOGRAPHIC_FAMILY, _TRADEMARK = 1, 4, 6, 3, 16, 7  # name ids of OpenType


def collect_characters() -> set[str]:
    """Every printable character in the package's string literals and data files, and ASCII."""
    texts = [chr(code) for code in range(0x20, 0x7F)]
    for path in sorted(_PACKAGE.rglob("*")):
        if path.suffix == ".py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts += [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        elif path.suffix in (".yaml", ".csv", ".jsonl", ".json", ".txt"):
            texts.append(path.read_text(encoding="utf-8"))
    return {character for text in texts for character in text if character.isprintable()}


def write_font(source: Path, target: Path) -> int:
    """Write the subset of a font collection to `target`. Returns the number of its characters."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    font = TTFont(source, fontNumber=_SIMPLIFIED, recalcTimestamp=False)
    options = subset.Options(
        layout_features=[], name_IDs=["*"], notdef_outline=True, hinting=False, desubroutinize=True
    )
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=map(ord, collect_characters()))
    subsetter.subset(font)
    names = font["name"]
    names.names = [record for record in names.names if record.platformID == 3 and record.langID == 0x409]
    for name_id in (_FAMILY, _FULL, _TYPOGRAPHIC_FAMILY, _UNIQUE):
        names.setName(NAME, name_id, 3, 1, 0x409)
    names.setName(NAME.replace(" ", "") + "-Regular", _POSTSCRIPT, 3, 1, 0x409)
    names.removeNames(nameID=_TRADEMARK)
    font["CFF "].cff.fontNames = [NAME.replace(" ", "") + "-Regular"]
    font.save(target)
    return len(font.getBestCmap())


if __name__ == "__main__":
    print(f"{write_font(Path(sys.argv[1]), BUNDLED)} characters: {BUNDLED}")
