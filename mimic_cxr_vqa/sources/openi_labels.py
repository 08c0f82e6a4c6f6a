"""The mapping from the Indiana collection's annotation to the 14 CheXpert labels, from `mesh.tsv`.

The collection annotates each report with MeSH headings and RadLex terms. `Problems` lists the headings, and `MeSH`
gives each with its qualifiers ("Opacity/lung/base/left/mild"). A row of the table has a heading, a qualifier (empty for
the heading alone) and its labels (`-` for none). Rows with one of the term's qualifiers count instead of the heading
alone, and a `-` among them means that the term has no label. Headings without a label (bones, vessels, habitus) are
listed too, so that only new headings count as unmapped. All labels are positive, because a heading that the annotation
does not list is missing rather than absent.
"""

import re
from functools import cache
from pathlib import Path


def map_term(term: str) -> tuple[tuple[str, ...], bool]:
    """Return the labels of one annotation term, a heading with or without qualifiers ("Opacity/lung/base/left").

    Returns:
        The labels, and whether the heading is known. An unknown heading lacks labels.
    """
    heading, *qualifiers = (re.sub(r"[\s,]+", " ", part).strip().lower() for part in term.split("/"))
    rows = _read_table().get(heading, {})
    found = [rows[qualifier] for qualifier in qualifiers if qualifier in rows] or [rows.get("", ())]
    labels = () if () in found else tuple(dict.fromkeys(label for labels in found for label in labels))
    return labels, bool(rows)


@cache
def _read_table() -> dict[str, dict[str, tuple[str, ...]]]:
    """Heading without commas -> qualifier -> labels."""
    table: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in Path(__file__).with_name("mesh.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        heading, qualifier, labels = line.split("\t")
        names = tuple(labels.split("|")) if labels != "-" else ()
        table.setdefault(heading.replace(",", ""), {})[qualifier] = names
    return table
