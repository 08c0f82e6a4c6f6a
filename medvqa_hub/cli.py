"""The command `medvqa-hub`. Nothing heavy is imported until a command runs, so that every `--help` answers at once.

Exit codes: 0 done, 1 an error that one line on standard error explains, 2 wrong usage, 130 stopped by Ctrl-C.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from medvqa_core.errors import MedvqaError, one_line
from medvqa_hub.evaluation.cli import app as evaluate_app
from medvqa_hub.training.cli import app as train_app
from medvqa_hub.training.launching import refuse_lone_process
from mimic_cxr_vqa.cli import app as cxr_app
from rjua_meddqa.cli import app as meddqa_app

STOPPED = "stopped; run the same command again to go on"

# Plain tracebacks: the decorated ones can print local variables, and those may be report text.
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Medical visual question answering on the Hugging Face stack.",
)
app.add_typer(cxr_app, name="cxr")
app.add_typer(meddqa_app, name="meddqa")
app.add_typer(train_app, name="train")
app.add_typer(evaluate_app, name="evaluate")


@app.command()
def doctor(
    mimic_root: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR-JPG to check.")] = None,
    reports: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR or its reports zip.")] = None,
) -> None:
    """Say what is there, what is missing and what to do about it."""
    from medvqa_hub.doctor import examine

    if not examine(mimic_root, reports):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything that the demo makes.")] = Path("out/demo"),
    studies: Annotated[int, typer.Option(help="Number of synthetic studies.")] = 120,
    seed: Annotated[int, typer.Option(help="Seed of the studies and their questions.")] = 0,
    training_studies: Annotated[
        int, typer.Option(min=0, help="Small studies to train on, about 5 minutes; 0: no training.")
    ] = 3_000,
    reports: Annotated[bool, typer.Option(help="Also read the bundled Chinese report images.")] = True,
) -> None:
    """Run the whole story on synthetic data: draw, ask, answer, release, load, count, look, train, evaluate, read."""
    from medvqa_hub.demo.story import run_demo

    run_demo(out, studies, seed, training_studies, reports)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: runs the command and exits with its code."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code. Errors that a user can fix become one line on standard error."""
    try:
        if "MASTER_ADDR" in os.environ:  # of a process group
            refuse_lone_process(os.environ)
        typer.main.get_command(app).main(args=arguments, prog_name="medvqa-hub")
    except SystemExit as done:
        if done.code == 130:
            print(STOPPED, file=sys.stderr)
        return done.code or 0
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return 130
    except MedvqaError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    main()
