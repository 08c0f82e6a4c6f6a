"""The `--engine` options that every command with a language model shares, as one object.

    @app.command()
    @with_engine_options("rules (no model, the default)")
    def judge(out: Path, engine: EngineOptions) -> None:
        model = connect_model(engine, Governance.OPEN)

medvqa-hub … --engine server:http://127.0.0.1:8000/v1 [--engine server:…] --model NAME --slots 64 --wait 10m
             --i-run-this-server | --attestation FILE
medvqa-hub … --engine transformers:FOLDER_OR_ID --load-in 4bit
"""

import inspect
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from medvqa_core.addresses import is_loopback
from medvqa_core.errors import ConfigError

DEFAULT_SLOTS, DEFAULT_WAIT, DEFAULT_KEY = 64, "10m", "OPENAI_API_KEY"
SPELLED = (
    "server:URL (an OpenAI-compatible server; repeat to share the work between several) or transformers:FOLDER_OR_ID"
)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class LoadIn(StrEnum):
    four_bit = "4bit"
    eight_bit = "8bit"


@dataclass(frozen=True)
class EngineOptions:
    """The engines that a command uses, and how. An option that the user did not give is empty.

    Attributes:
        engines: `server:URL`, `transformers:FOLDER_OR_ID`, or the name of a command's own engine. Several servers of
            one model share the work.
        model: its name at the server; None where the server has only one.
        slots: most requests at a server at once.
        wait: how long to wait for a server that is down, such as 90s, 10m or 2h.
        load_in: precision of the weights of a `transformers:` model.
        i_run_this_server: the user states that the server runs the model itself, on this machine. Credentialed texts
            need it, because a program on this machine could forward them.
        attestation: file that names other machines which may receive credentialed texts.
        api_key_env: environment variable with the server's API key; None: OPENAI_API_KEY, if it is set.
        any_model: accept replies that name another model than the one asked for, and record its name in each row.
    """

    engines: tuple[str, ...] = ()
    model: str | None = None
    slots: int | None = None
    wait: str | None = None
    load_in: LoadIn | None = None
    i_run_this_server: bool = False
    attestation: Path | None = None
    api_key_env: str | None = None
    any_model: bool = False

    @property
    def is_language_model(self) -> bool:
        """Whether `engines` are spelled as language models and not as a command's own engine."""
        return any(":" in name for name in self.engines)

    @property
    def seconds_to_wait(self) -> float:
        """`wait` in seconds. Raises ConfigError."""
        text = self.wait if self.wait is not None else DEFAULT_WAIT
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip(), re.ASCII)
        if found is None:
            raise ConfigError(f"--wait {text!r} is not a time. Expected something like 90s, 10m or 2h.")
        return float(found[1]) * _UNITS[found[2]]

    def read_api_key(self, endpoint: str) -> str | None:
        """The API key for a server, from the environment. Raises ConfigError if a named variable is not set.

        The key in OPENAI_API_KEY is not sent unencrypted to another machine unless the user names the variable.
        """
        key = os.environ.get(self.api_key_env or DEFAULT_KEY, "").strip()
        if self.api_key_env and not key:
            raise ConfigError(f"--api-key-env {self.api_key_env}: the environment variable is not set")
        is_safe = self.api_key_env or endpoint.startswith("https://") or is_loopback(endpoint)
        return key if key and is_safe else None

    def get_single_engine(self) -> str:
        """The name of a command's own engine. Raises ConfigError if there are several."""
        if len(self.engines) != 1:
            raise ConfigError(f"--engine {' --engine '.join(self.engines)}: only servers share the work. Give one.")
        return self.engines[0]

    def split_checkpoint(self) -> tuple["EngineOptions", str | None]:
        """The options of a language model and, if no engine is given, the checkpoint that `--model` names."""
        return (self, None) if self.engines else (replace(self, model=None), self.model)

    def check_unused(self, engine: str, **others: Any) -> None:
        """Raise ConfigError if an option of language models was given with `engine`, which does not use one.

        Args:
            others: more such options of the command. Empty values were not given.
        """
        values = {name: value for name, value in vars(self).items() if name != "engines"} | others
        given = [f"--{name.replace('_', '-')}" for name, value in values.items() if value not in (None, False)]
        if given:
            verb = "applies" if len(given) == 1 else "apply"
            raise ConfigError(
                f"{', '.join(given)} only {verb} to language models ({SPELLED}); {engine!r} does not use one"
            )


NO_ENGINE = EngineOptions()
_OPTIONS: dict[str, tuple[Any, str]] = {  # type and help
    "engines": (list[str], ""),
    "model": (str, "Name of the model at the server, if the server has several."),
    "slots": (int, f"Maximum concurrent requests per server. Default: {DEFAULT_SLOTS}."),
    "wait": (str, f"How long to wait for a server that is down: 90s, 10m, 2h. Default: {DEFAULT_WAIT}."),
    "load_in": (LoadIn, "transformers: load the weights in 4 or 8 bits (bitsandbytes)."),
    "i_run_this_server": (
        bool,
        "Confirm that you run the server and its model on this machine. Required for credentialed texts.",
    ),
    "attestation": (Path, "Credentialed texts: file that names the hosts which may receive them (docs/governance.md)."),
    "api_key_env": (str, f"Environment variable with the server's API key. Default: {DEFAULT_KEY}, if it is set."),
    "any_model": (bool, "Accept replies from another model than the requested one, and record its name in each row."),
}


def with_engine_options(own: str = "", without: Collection[str] = (), **help: str) -> Callable[[Callable], Callable]:
    """Decorator that gives a command the `--engine` options, in place of its parameter `engine: EngineOptions`.

    Args:
        own: names the engines of the command that are not language models.
        without: fields of EngineOptions that are not options of this command.
        help: help texts that differ from the shared ones, by field.
    """
    help = {"engines": f"{own}{', or ' if own else ''}{SPELLED}.", **help}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        added = [_make_parameter(name, help.get(name)) for name in _OPTIONS if name not in without]
        parameters = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            own_parameter = [parameter.replace(kind=parameter.KEYWORD_ONLY)]
            parameters += added if parameter.name == "engine" else own_parameter

        @wraps(command)
        def run(**given: Any) -> None:
            values = {parameter.name: given.pop(parameter.name) for parameter in added}
            command(engine=EngineOptions(**{**values, "engines": tuple(values["engines"] or ())}), **given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _make_parameter(field: str, help: str | None) -> inspect.Parameter:
    kind, default_help = _OPTIONS[field]
    name = "--engine" if field == "engines" else f"--{field.replace('_', '-')}"
    given = typer.Option(name, help=help or default_help, min=1 if kind is int else None)
    default = False if kind is bool else None
    hint: Any = kind if kind is bool else kind | None
    return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, given])
