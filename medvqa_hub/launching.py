"""`--launch`: run a command again in several processes.

`accelerate launch` starts them, with one exception: on one machine with `--cpu` it starts a single process whatever
`--num_processes` says (accelerate 1.15, without mpirun). There torch's own launcher does it, told to use the CPU.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from medvqa_core.errors import ConfigError

Launch = Annotated[
    str | None, typer.Option(help="Start with `accelerate launch` and these arguments: '--num_processes 8'.")
]


def make_command(launch: str, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command that runs `medvqa-hub ARGUMENTS` in every process, and the variables it needs.

    Args:
        launch: arguments of `accelerate launch`, as one would type them.

    Raises:
        ConfigError: `launch` has an open quote, or an argument that CPU processes have no use for.
    """
    try:
        given = shlex.split(launch)
    except ValueError as error:
        raise ConfigError(f"--launch {launch!r}: {error}; write it as arguments of accelerate launch") from error
    module = ["-m", "medvqa_hub.cli", *arguments]
    try:
        known, others = _parser().parse_known_args(given)
    except argparse.ArgumentError as error:
        raise ConfigError(f"--launch {launch!r}: {error}") from error
    mpi = any("mpirun" in argument for argument in others)
    if not known.cpu or known.num_processes < 2 or mpi:
        return [sys.executable, "-m", "accelerate.commands.launch", *given, *module], {}
    if others:
        raise ConfigError(
            f"--launch {launch!r}: {' '.join(others)} has no meaning for processes on a CPU; allowed there: --cpu, "
            "--num_processes, --num_cpu_threads_per_process"
        )
    threads = known.num_cpu_threads_per_process or max(1, (os.cpu_count() or 1) // known.num_processes)
    variables = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": str(threads)}
    processes = ["--standalone", f"--nproc_per_node={known.num_processes}"]
    return [sys.executable, "-m", "torch.distributed.run", *processes, *module], variables


def check_launcher(variables: Mapping[str, str]) -> None:
    """Raise a ConfigError where `accelerate launch --cpu --num_processes N` started this process and no other.

    Its trace is the address of a process group, but neither this process's number nor how many there are.
    """
    sizes = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
    on_cpu = variables.get("ACCELERATE_USE_CPU", "").lower() == "true"
    if on_cpu and "MASTER_ADDR" in variables and not any(name in variables for name in sizes):
        raise ConfigError(
            "accelerate launch was to start several processes on the CPU and started one: run the command without it, "
            "with --launch '--cpu --num_processes N'"
        )


def hand_over(launch: str, arguments: Sequence[str]) -> int:
    """Run `medvqa-hub ARGUMENTS` in every process; returns the exit code."""
    command, variables = make_command(launch, arguments)
    process = subprocess.Popen(command, env={**os.environ, **variables})
    try:
        code = process.wait()
    except BaseException:  # stopped: a launcher that is asked to end ends its processes, one that is killed leaves them
        process.terminate()
        process.wait()
        raise
    return code if code >= 0 else 128 - code


def _parser() -> argparse.ArgumentParser:
    """Those arguments of `accelerate launch` that count for processes on a CPU."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--num_processes", "--num-processes", type=int, default=1)
    parser.add_argument("--num_cpu_threads_per_process", "--num-cpu-threads-per-process", type=int)
    return parser
