"""Connects to the language model of `--engine`, after checking that it may receive texts of their class."""

from collections.abc import Sequence
from pathlib import Path

from medvqa_core.addresses import parse_host
from medvqa_core.attestation import Attestation, read_attestation
from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.folder_class import GOVERNANCE, read_governance
from medvqa_core.governance import Governance, check_endpoint_allowed, check_not_lowered, strictest
from medvqa_core.json_files import read_object
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.loading import ADAPTER, load_model
from medvqa_core.llm.options import DEFAULT_SLOTS, EngineOptions
from medvqa_core.llm.pool import ServerPool
from medvqa_core.llm.record import ModelRecord
from medvqa_core.llm.server import ChatServer

SERVER, TRANSFORMERS = "server", "transformers"
CLOUD_SUFFIXES = ("-cloud", ":cloud")  # models that Ollama forwards


def connect_model(options: EngineOptions, governance: Governance, record: Path | None = None) -> ChatModel:
    """Connect to the language model that `options` name, for texts and images of a class.

    Args:
        record: `language_model.json` beside the stored replies. A statement about a server that is recorded there is
            not asked for again.

    Raises:
        GovernanceError: credentialed texts would or could leave this machine, or a folder's weights are of a stricter
            class than `governance`.
        ConfigError, ServerError: as `ChatServer`; an engine that is spelled otherwise.
    """
    kinds, places = zip(*(name.partition(":")[::2] for name in options.engines), strict=True)
    kept = ModelRecord(record) if record is not None else None
    slots = options.slots or DEFAULT_SLOTS
    if len(places) == 1 and kinds == (TRANSFORMERS,) and places[0]:
        if options.model:
            raise ConfigError(
                f"--model {options.model} only applies to servers. transformers:{places[0]} names its own"
            )
        from medvqa_core.llm.in_process import InProcessModel

        # The replies of a model that was trained on credentialed texts may contain them.
        check_not_lowered(
            get_engines_governance(options.engines),
            governance,
            f"the model of {kinds[0]}:{places[0]}, and what it writes,",
        )
        here = InProcessModel(load_model(places[0], options.load_in), slots)
        if kept:
            kept.add(None, governance, False, None, {"kind": here.kind, **here.description})
        return here
    if set(kinds) != {SERVER} or len(set(places)) < len(places):
        spelled = " ".join(f"--engine {name}" for name in options.engines)
        raise ConfigError(
            f"{spelled}: language models are spelled server:URL or transformers:FOLDER_OR_ID. Name each once"
        )
    if options.load_in:
        raise ConfigError(
            f"--load-in {options.load_in} applies to transformers:FOLDER_OR_ID. A server loads its model itself"
        )
    attestation = read_attestation(options.attestation) if options.attestation else None
    servers = [_connect_server(place, governance, options, attestation, kept) for place in places]
    return servers[0] if len(servers) == 1 else ServerPool(servers, options.seconds_to_wait)


def get_engines_governance(engines: Sequence[str]) -> Governance:
    """The strictest class that folders of weights (and bases of adapters) declare, a minimum for their replies.

    Raises:
        GovernanceError: a class is unknown.
        InputError: a file that declares one cannot be read.
    """
    folders = [Path(name.partition(":")[2]) for name in engines if name.startswith(f"{TRANSFORMERS}:")]
    for folder in folders.copy():
        if (folder / ADAPTER).is_file():
            base = read_object(folder / ADAPTER, "save the adapter again").get("base_model_name_or_path")
            folders.append(Path(str(base)))
    return strictest([Governance.OPEN, *(read_governance(path) for path in folders if (path / GOVERNANCE).is_file())])


def _connect_server(
    endpoint: str,
    governance: Governance,
    options: EngineOptions,
    attestation: Attestation | None,
    kept: ModelRecord | None,
) -> ChatServer:
    """Connect to a server, once it is clear that it may receive texts of this class."""
    credentialed = governance is Governance.CREDENTIALED
    check_endpoint_allowed(governance, endpoint, "engine server", attestation)
    host, model = parse_host(endpoint), options.model
    attested = credentialed and attestation is not None and attestation.covers(endpoint)
    needs_word = credentialed and not attested

    def check(model: str | None) -> None:
        if credentialed and model and model.strip().lower().endswith(CLOUD_SUFFIXES):
            raise GovernanceError(f"model {model!r} is forwarded to a cloud by its server. Choose another")
        if needs_word and not (options.i_run_this_server or (kept and kept.is_own(host, model))):
            raise GovernanceError(
                f"these texts are credentialed, and a server at {host} could forward them. If it is yours and runs the "
                "model on this machine, add --i-run-this-server to this command"
            )

    check(model)
    server = ChatServer(
        endpoint,
        model or "",
        options.slots or DEFAULT_SLOTS,
        options.seconds_to_wait,
        loopback_only=needs_word,  # every connection is checked, so the address need not be resolved here
        attestation=attestation,
        api_key=options.read_api_key(endpoint),
        any_model=options.any_model,
        known=kept.find_capabilities(host, model) if kept else None,
    )
    server.connect()
    check(server.model)
    if kept:
        digest = attestation.digest if attestation and attested else None
        kept.add(host, governance, needs_word, digest, {"kind": server.kind, **server.description})
    return server
