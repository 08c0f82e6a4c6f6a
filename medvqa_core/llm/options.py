"""The options of every command that asks a language model, spelled once; `connect` makes them a model.

medvqa-hub … --engine server:http://127.0.0.1:8000/v1 [--engine server:…] --model NAME --slots 64 --wait 10m
             --i-run-this-server | --attestation FILE
medvqa-hub … --engine transformers:FOLDER_OR_ID --load-in 4bit
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance

if TYPE_CHECKING:
    from medvqa_core.llm.chat_model import ChatModel

DEFAULT_SLOTS, DEFAULT_WAIT = 64, "10m"
SPELLED = "server:URL (an OpenAI-compatible server; several share the work) or transformers:FOLDER_OR_ID"
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class LoadIn(StrEnum):
    four_bit = "4bit"
    eight_bit = "8bit"


def engine_option(own: str = "") -> Any:
    """`--engine`, which may be repeated; `own` names what a command has besides language models."""
    return typer.Option("--engine", help=f"{own}{', or ' if own else ''}{SPELLED}.")


ModelName = Annotated[str | None, typer.Option("--model", help="Model of the server; needed where it has several.")]
Slots = Annotated[int, typer.Option("--slots", help="Most requests at a model at once.", min=1)]
Wait = Annotated[str, typer.Option("--wait", help="How long a server that is gone is waited for: 90s, 10m, 2h.")]
LoadInBits = Annotated[
    LoadIn | None, typer.Option("--load-in", help="transformers: weights in 4 or 8 bits (bitsandbytes).")
]
OwnServer = Annotated[
    bool, typer.Option("--i-run-this-server", help="Credentialed texts: the server is yours, its model runs here.")
]
AttestationFile = Annotated[
    Path | None,
    typer.Option(
        "--attestation", help="Credentialed texts: file that names the hosts that may have them (docs/cxr.md)."
    ),
]


def connect(
    engines: str | Sequence[str],
    governance: Governance,
    model: str | None = None,
    slots: int = DEFAULT_SLOTS,
    wait: str = DEFAULT_WAIT,
    own_server: bool = False,
    attestation: Path | None = None,
    load_in: LoadIn | None = None,
    record: Path | None = None,
) -> "ChatModel":
    """The options above as a model that is ready; see `connect_model` for what they mean and what is raised."""
    from medvqa_core.attestation import read_attestation
    from medvqa_core.llm.connecting import connect_model

    return connect_model(
        engines,
        governance,
        model,
        slots=slots,
        wait=parse_duration(wait),
        own_server=own_server,
        attestation=read_attestation(attestation) if attestation else None,
        load_in=load_in.value if load_in else None,
        record=record,
    )


def parse_duration(text: str) -> float:
    """`90s`, `10m`, `2h` or a plain number of seconds. Raises ConfigError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip(), re.ASCII)
    if found is None:
        raise ConfigError(f"--wait {text!r}: a time is needed, such as 90s, 10m or 2h")
    return float(found[1]) * _UNITS[found[2]]


def check_model_options(engine: str, **given: Any) -> None:
    """Options of language models that come with another engine.

    Raises:
        ConfigError: one of `given` has a value; names it as it is typed.
    """
    typed = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if typed:
        verb = "is" if len(typed) == 1 else "are"
        raise ConfigError(f"{', '.join(typed)} {verb} of language models ({SPELLED}), not of {engine!r}")


def one_engine(engines: Sequence[str]) -> str:
    """The engine of a command, where it is no language model. Raises ConfigError where there are several."""
    if len(engines) != 1:
        raise ConfigError(f"--engine {' --engine '.join(engines)}: only servers share the work; name one engine")
    return engines[0]
