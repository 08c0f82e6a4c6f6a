"""`--engine` as a language model that is ready, checked against the class of the texts it will be sent."""

from collections.abc import Sequence
from pathlib import Path

from medvqa_core.addresses import is_loopback, parse_host
from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.folder_class import GOVERNANCE, read_governance
from medvqa_core.governance import Governance, check_endpoint_allowed, check_not_lowered, strictest
from medvqa_core.json_files import read_object
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.loading import ADAPTER
from medvqa_core.llm.pool import ServerPool
from medvqa_core.llm.record import ModelRecord
from medvqa_core.llm.server import ChatServer

SERVER, TRANSFORMERS = "server", "transformers"
SPELLINGS = ("server:URL", "transformers:FOLDER_OR_ID")
CLOUD_SUFFIXES = ("-cloud", ":cloud")  # how Ollama names the models that it forwards


def is_model_engine(engine: str | Sequence[str]) -> bool:
    """Whether `engine` (one, or several to share the work) is spelled as a language model, not as a dataset's own."""
    return any(":" in name for name in _listed(engine))


def connect_model(
    engine: str | Sequence[str],
    governance: Governance,
    model: str | None = None,
    *,
    slots: int = 64,
    wait: float = 600.0,
    own_server: bool = False,
    attestation: Attestation | None = None,
    load_in: str | None = None,
    record: Path | None = None,
) -> ChatModel:
    """The language model that `engine` names, met and ready for texts and images of a class.

    Args:
        engine: `server:URL` or `transformers:FOLDER_OR_ID`; several servers of one model share the work.
        model: name at the server; None where it has only one.
        slots: most requests at a server at once.
        wait: seconds that a server which is gone is waited for.
        own_server: the user's word that the server runs the model itself, on this machine; needed for credentialed
            texts, since a program on this machine could hand them on.
        attestation: names other machines that may have credentialed texts.
        load_in: `4bit` or `8bit`, of a model in this process.
        record: `language_model.json` of whoever keeps the answers: what was said of a server there is not asked again.

    Raises:
        GovernanceError: credentialed texts would leave this machine, or could; or a folder's weights are of a stricter
            class than `governance`.
        ConfigError, ServerError: as `ChatServer`; an engine that is spelled otherwise.
    """
    kinds, places = zip(*(name.partition(":")[::2] for name in _listed(engine)), strict=True)
    kept = ModelRecord(record) if record is not None else None
    if len(places) == 1 and kinds == (TRANSFORMERS,) and places[0]:
        if model:
            raise ConfigError(f"--model {model} is of servers; transformers:{places[0]} names the model itself")
        from medvqa_core.llm.in_process import load_in_process

        # what a model has learned of credentialed texts may stand in its answers
        check_not_lowered(
            get_engines_governance(engine), governance, f"the model of {kinds[0]}:{places[0]}, and what it writes,"
        )
        here = load_in_process(places[0], slots, load_in)
        if kept:
            kept.add(None, governance, False, None, {"kind": here.kind, **here.description})
        return here
    if set(kinds) != {SERVER} or len(set(places)) < len(places):
        spelled = " ".join(f"--engine {name}" for name in _listed(engine))
        raise ConfigError(
            f"{spelled}: language models are spelled {' or '.join(SPELLINGS)}; several are servers, each named once"
        )
    if load_in:
        raise ConfigError(f"--load-in {load_in} is of {SPELLINGS[1]}; a server loads its model itself")
    servers = [_meet_server(place, governance, model, slots, wait, own_server, attestation, kept) for place in places]
    return servers[0] if len(servers) == 1 else ServerPool(servers, wait)


def get_engines_governance(engine: str | Sequence[str]) -> Governance:
    """The strictest class that folders of weights state, of an adapter's base too; a server and published weights say
    nothing. What such a model writes has at least this class.

    Raises:
        GovernanceError: a class is unknown.
        InputError: a file that states one cannot be read.
    """
    folders = [Path(name.partition(":")[2]) for name in _listed(engine) if name.startswith(f"{TRANSFORMERS}:")]
    for folder in folders.copy():
        if (folder / ADAPTER).is_file():
            base = read_object(folder / ADAPTER, "save the adapter again").get("base_model_name_or_path")
            folders.append(Path(str(base)))
    return strictest([Governance.OPEN, *(read_governance(path) for path in folders if (path / GOVERNANCE).is_file())])


def _meet_server(
    endpoint: str,
    governance: Governance,
    model: str | None,
    slots: int,
    wait: float,
    own_server: bool,
    attestation: Attestation | None,
    kept: ModelRecord | None,
) -> ChatServer:
    """A server, met once it is clear that it may have texts of this class."""
    credentialed = governance is Governance.CREDENTIALED
    check_endpoint_allowed(governance, endpoint, "engine server", attestation)
    here, host = is_loopback(endpoint), parse_host(endpoint)
    attested = credentialed and attestation is not None and attestation.covers(endpoint)
    needs_word = credentialed and not attested
    _refuse_forwarded(model, credentialed)
    if needs_word and not (own_server or (kept and kept.is_own(host, model))):
        raise _ask_for_word(host)
    server = ChatServer(endpoint, model or "", slots, wait, credentialed and here, attestation)
    server.connect()
    _refuse_forwarded(server.model, credentialed)
    said = needs_word and (own_server or (kept is not None and kept.is_own(host, server.model)))
    if needs_word and not said:
        raise _ask_for_word(host)
    if kept:
        digest = attestation.digest if attestation and attested else None
        kept.add(host, governance, said, digest, {"kind": server.kind, **server.description})
    return server


def _refuse_forwarded(model: str | None, credentialed: bool) -> None:
    if credentialed and model and model.strip().lower().endswith(CLOUD_SUFFIXES):
        raise GovernanceError(f"model {model!r} is one that its server forwards to a cloud; choose another")


def _ask_for_word(host: str) -> GovernanceError:
    return GovernanceError(
        f"these texts are credentialed, and a server at {host} could hand them on: if it is yours and runs the model "
        "on this machine, say so with --i-run-this-server (asked once for a server and a model)"
    )


def _listed(engine: str | Sequence[str]) -> list[str]:
    return [engine] if isinstance(engine, str) else list(engine)
