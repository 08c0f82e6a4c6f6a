"""Croissant 1.0, the JSON-LD of data catalogues, with its responsible-AI fields (RAI 1.0).

Specifications: https://docs.mlcommons.org/croissant/docs/croissant-spec.html and …/croissant-rai-spec.html.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medvqa_core.digests import digest

FILE = "croissant.json"
LAYOUT = "1.0.0"  # first part of a dataset's version
CONFORMS = ("http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0")
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_LINES = "application/jsonlines"
_MIME = {".parquet": "application/x-parquet", ".jsonl": _LINES, ".json": _LINES, ".csv": "text/csv"}
_TYPES = {"int": "sc:Integer", "float": "sc:Float", "bool": "sc:Boolean", "text": "sc:Text"}


@dataclass(frozen=True)
class Records:
    """One table of a dataset.

    Attributes:
        pattern: of its files, such as "qa/*.parquet".
        fields: column -> (`int`, `float`, `bool` or `text`, whether it holds lists).
    """

    pattern: str
    description: str
    fields: Mapping[str, tuple[str, bool]]


def content_digest(files: Mapping[str, Mapping[str, Any]]) -> str:
    """A digest (16 hex digits) of the names and `sha256` of files."""
    return digest("\n".join(f"{name} {described['sha256']}" for name, described in sorted(files.items())))[:16]


def describe(
    about: Mapping[str, str],
    files: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, Records],
    rai: Mapping[str, str],
) -> dict[str, Any]:
    """The JSON-LD of a dataset.

    It depends on the content only. The version is LAYOUT with the content's digest as SemVer build. Publishers add
    `datePublished` and `creator`.

    Args:
        about: `name`, `description`, `license`, `url`, `citeAs`.
        files: name -> `bytes` and `sha256` of the files of `tables`.
        rai: responsible-AI fields, without their prefix.
    """
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS),
        **about,
        "version": f"{LAYOUT}+{content_digest(files)}",
        **{f"rai:{name}": text for name, text in rai.items()},
        "distribution": [_file(name, described) for name, described in sorted(files.items())]
        + [_files(name, table) for name, table in tables.items()],
        "recordSet": [_records(name, table) for name, table in tables.items()],
    }


def _file(name: str, described: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{described['bytes']} B",
        "encodingFormat": _mime(name),
        "sha256": described["sha256"],
    }


def _files(name: str, table: Records) -> dict[str, Any]:
    """Files in the folder of the description. With `containedIn`, they would be searched in an archive."""
    return {
        "@type": "cr:FileSet",
        "@id": f"{name}-files",
        "name": f"{name}-files",
        "encodingFormat": _mime(table.pattern),
        "includes": table.pattern,
    }


def _records(name: str, table: Records) -> dict[str, Any]:
    fields = []
    for column, (kind, repeated) in table.fields.items():
        field = {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": column,
            "dataType": _TYPES[kind],
            "source": {"fileSet": {"@id": f"{name}-files"}, "extract": {"column": column}},
        }
        fields.append(field | ({"repeated": True} if repeated else {}))
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": table.description, "field": fields}


def _mime(name: str) -> str:
    return next(mime for suffix, mime in _MIME.items() if name.endswith(suffix))
