"""`--launch`: run a command in several processes.

The processes are started by `accelerate launch`. With `--cpu` on one machine, accelerate 1.15 starts a single process
whatever `--num_processes` is, unless mpirun is used. In that case torch's own launcher starts them.
"""

import argparse
import json
import logging
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from medvqa_core.errors import ConfigError

Launch = Annotated[
    str | None,
    typer.Option(
        help="Run under `accelerate launch` with these arguments: '--num_processes 8'. They may begin with a shipped "
        "configuration: one_gpu, eight_gpus or fsdp ('fsdp --num_processes 4')."
    ),
]

CONFIGS = Path(__file__).parent / "accelerate_configs"
LONGEST_WAIT = timedelta(days=7)  # for the slowest process; the default is minutes


class ProcessGroup:
    """The processes of this run, as started by `--launch`, `accelerate launch` or `torchrun`.

    Attributes:
        size, rank: number of processes, and the number of this one.
        device: "cpu" if the launcher was told to use CPUs. None is the process's GPU, or the CPU without one.

    Raises:
        ConfigError: the processes do not find each other.
    """

    def __init__(self) -> None:
        self.size, self.rank, self._state = 1, 0, None
        self.device = "cpu" if os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes") else None
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if started > 1:
            import torch
            from accelerate import PartialState

            # Without cpu=True and without a GPU, accelerate treats every process as the only one.
            cpu = self.device == "cpu" or not torch.cuda.is_available()
            self._state = PartialState(cpu=cpu, timeout=LONGEST_WAIT)
            self.size, self.rank = self._state.num_processes, self._state.process_index
            if self.size != started:
                raise ConfigError(
                    f"{started} processes were started, but this one finds {self.size}. Start them with --launch, "
                    "for example --launch '--num_processes 8'."
                )

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Wait for all processes."""
        if self._state is not None:
            self._state.wait_for_everyone()


LAUNCHER = (sys.executable, "-m", "medvqa_hub.launching")  # runs the module that follows, see `main`
QUIET = "MEDVQA_HUB_LAUNCHED"  # set in the processes of `--launch`
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # set by torch's launcher for each process


def make_command(launch: str, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs `medvqa-hub ARGUMENTS` in every process, and its environment variables.

    Args:
        launch: arguments of `accelerate launch` as typed in a shell, after the name of a shipped configuration if any.

    Raises:
        ConfigError: `launch` has an unclosed quote, begins with an unknown name, or has an argument that CPU processes
            do not support.
    """
    try:
        given = shlex.split(launch)
    except ValueError as error:
        raise ConfigError(f"--launch {launch!r}: {error}. Expected arguments of accelerate launch.") from error
    if given and not given[0].startswith("-"):
        given = ["--config_file", str(_find_config(given[0])), *given[1:]]
    module = ["-m", "medvqa_hub.cli", *arguments]
    try:
        known, others = _parser().parse_known_args(given)
    except argparse.ArgumentError as error:
        raise ConfigError(f"--launch {launch!r}: {error}") from error
    mpi = any("mpirun" in argument for argument in others)
    if not known.cpu or known.num_processes < 2 or mpi:
        return [*LAUNCHER, "accelerate.commands.launch", *given, *module], {}
    if others:
        raise ConfigError(
            f"--launch {launch!r}: {' '.join(others)} is not supported on a CPU. Supported are --cpu, --num_processes "
            "and --num_cpu_threads_per_process."
        )
    threads = known.num_cpu_threads_per_process or max(1, (os.cpu_count() or 1) // known.num_processes)
    variables = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": str(threads)}
    processes = ["--standalone", f"--nproc_per_node={known.num_processes}"]
    return [*LAUNCHER, "torch.distributed.run", *processes, *module], variables


def check_launcher(variables: Mapping[str, str]) -> None:
    """Raise a ConfigError if `accelerate launch --cpu --num_processes N` started a single process.

    In that case the address of a process group is set, but not its size or this process's rank.
    """
    sizes = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
    on_cpu = variables.get("ACCELERATE_USE_CPU", "").lower() == "true"
    if on_cpu and "MASTER_ADDR" in variables and not any(name in variables for name in sizes):
        raise ConfigError(
            "accelerate launch started one CPU process instead of several. Run the command without accelerate launch "
            "and add --launch '--cpu --num_processes N'."
        )


def launch_command(launch: str, command: Sequence[str], context: typer.Context) -> None:
    """Run `command` with the options of `context` in several processes. Raises typer.Exit if it fails."""
    if code := run_launcher(launch, [*command, *_repeat_options(context)]):
        raise typer.Exit(code)


def _repeat_options(context: typer.Context) -> list[str]:
    """The options of this command line without --launch."""
    arguments = []
    for option in context.command.params:
        value = context.params.get(option.name)
        if option.name == "launch" or value is None:
            continue
        if isinstance(value, bool):
            arguments += option.opts[:1] if value else option.secondary_opts[:1]
        elif isinstance(value, list | tuple):
            arguments += [part for item in value for part in (option.opts[0], str(item))]
        else:
            arguments += [option.opts[0], str(value)]
    return arguments


def run_launcher(launch: str, arguments: Sequence[str]) -> int:
    """Run `medvqa-hub ARGUMENTS` in every process and return the exit code."""
    command, variables = make_command(launch, arguments)
    process = subprocess.Popen(command, env={**os.environ, **variables})
    try:
        code = process.wait()
    except BaseException:  # a launcher that is terminated ends its processes, a killed one would leave them running
        process.terminate()
        process.wait()
        raise
    return code if code >= 0 else 128 - code


def _find_config(name: str) -> Path:
    """The file of a shipped configuration. Raises ConfigError if there is none of that name."""
    files = {path.stem: path for path in CONFIGS.glob("*.yaml")}
    if name not in files:
        raise ConfigError(
            f"--launch {name!r}: not a shipped configuration. Expected {', '.join(sorted(files))}, or options of "
            "accelerate launch, such as '--config_file FILE'."
        )
    return files[name]


def _parser() -> argparse.ArgumentParser:
    """Parser of the arguments of `accelerate launch` that matter on a CPU."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--num_processes", "--num-processes", type=int, default=1)
    parser.add_argument("--num_cpu_threads_per_process", "--num-cpu-threads-per-process", type=int)
    return parser


def print_error(message: str) -> None:
    """Print a message for the user, or leave it to the launcher, which prints it once for all processes."""
    if ERROR_FILE in os.environ and QUIET in os.environ:
        with open(os.environ[ERROR_FILE], "w", encoding="utf-8") as file:
            json.dump({"message": message}, file)
    else:
        print(message, file=sys.stderr)


def main() -> None:
    """Run a launcher's module. Its traceback is replaced by the messages of the processes that failed."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    sys.argv = sys.argv[1:]
    os.environ[QUIET] = "1"
    logging.disable(logging.ERROR)
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except ChildFailedError as error:
        failures = sorted(error.failures.items())
        for message in dict.fromkeys(_describe(rank, failure) for rank, failure in failures):
            if message:
                print(message, file=sys.stderr)
        code = error.get_first_failure()[1].exitcode
        sys.exit(code if code >= 0 else 128 - code)
    except subprocess.CalledProcessError as error:  # the process has printed its own message
        sys.exit(error.returncode)


def _describe(rank: int, failure: Any) -> str:
    """The message of a process that failed, or how it was killed. Other processes print their own traceback."""
    if os.path.isfile(failure.error_file):
        return str(failure.message)
    return f"error: process {rank} was ended by {failure.signal_name()}" if failure.exitcode < 0 else ""


if __name__ == "__main__":
    main()
