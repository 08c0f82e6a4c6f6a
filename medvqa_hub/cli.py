"""The command `medvqa-hub`. Nothing heavy is imported until a command runs, so that every `--help` answers at once.

Exit codes: 0 done, 1 an error that one line on standard error explains, 2 wrong usage, 130 stopped by Ctrl-C, 143 by
SIGTERM.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from medvqa_core.errors import ConfigError, MedvqaError, one_line
from medvqa_core.files import suggest_remedy
from medvqa_core.governance import Governance
from medvqa_core.llm.options import NO_ENGINE, EngineOptions, with_engine_options
from medvqa_hub.evaluation.cli import app as evaluate_app
from medvqa_hub.evaluation.export_cli import app as export_app
from medvqa_hub.launching import check_launcher
from medvqa_hub.publishing.cli import app as push_app
from medvqa_hub.publishing.publish_cli import app as publish_app
from medvqa_hub.training.cli import app as train_app
from mimic_cxr_vqa.cli import app as cxr_app
from rjua_meddqa.cli import app as meddqa_app

STOPPED = "stopped; run the same command again to go on"
# Threads of one step that wait for each other turn in a loop for some microseconds, then sleep. Left to itself OpenMP
# has them turn for long, and on a machine that is busy otherwise they take the cores that they wait for; asleep at
# once, they take a third longer on a quiet one.
# The policy is for libraries other than GNU's.
THREADS_THAT_WAIT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}

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
app.add_typer(push_app, name="push")
app.add_typer(publish_app, name="publish")
app.add_typer(export_app, name="export")


@app.command()
def doctor(
    mimic_root: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR-JPG to check.")] = None,
    reports: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR or its reports zip.")] = None,
    publish: Annotated[
        Path | None, typer.Option(help="Folder of publish physionet: say what stands in its way, and nothing else.")
    ] = None,
) -> None:
    """Say what is there, what is missing and what to do about it."""
    if publish is not None:
        from medvqa_hub.publishing.submission import find_problems, show

        if not show(find_problems(publish), typer.echo):
            raise typer.Exit(1)
        return
    from medvqa_hub.doctor import examine

    if not examine(mimic_root, reports):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the output.")] = Path("out/demo"),
    studies: Annotated[int, typer.Option(help="Number of synthetic studies.")] = 120,
    seed: Annotated[int, typer.Option(help="Seed of the studies and their questions.")] = 0,
    training_studies: Annotated[
        int, typer.Option(min=0, help="Number of small studies to train on. 0 skips the training.")
    ] = 3_000,
    reports: Annotated[bool, typer.Option(help="Also read synthetic Chinese report images.")] = True,
) -> None:
    """Run the README's commands on synthetic data: build, load, train, evaluate, read reports, publish (dry run)."""
    from medvqa_hub.demo.demo import Demo

    def command(arguments: Sequence[str]) -> None:
        code = typer.main.get_command(app).main(args=arguments, prog_name="medvqa-hub", standalone_mode=False)
        if code:
            raise typer.Exit(code)

    Demo(command, out).run(studies, seed, training_studies, reports)


@app.command()
def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders that evaluate wrote with --scored, or a scored-….jsonl of one.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for comparison.csv and comparison.png.")] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples; five times as many for a test.", min=1)] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    common: Annotated[
        bool, typer.Option("--common", help="Compare on the questions that all runs have, not refuse the others.")
    ] = False,
) -> None:
    """Compare evaluations on the same questions: one table with 95% intervals, and paired tests."""
    from medvqa_hub.evaluation.comparing import compare_runs
    from medvqa_hub.evaluation.comparing_tables import print_comparison, write_comparison

    made = compare_runs(runs, resamples, seed, common)
    print_comparison(made)
    if out is not None:
        write_comparison(made, out)
        typer.echo(f"comparison.csv and comparison.png: {out}")


@app.command()
@with_engine_options(
    without=["slots"],
    model="With --engine: the server's model. Without: folder of a checkpoint of our own models.",
    wait="How long to wait for a server that is down: 90s, 10m, 2h. Default: 10s.",
)
def explore(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="What to look at: a release, the authors' CSV files, annotated reports, restored pages. Without: the "
            "samples."
        ),
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of evaluate cxr --out: its answers beside the reference. Repeatable."),
    ] = None,
    image_root: Annotated[
        Path | None, typer.Option(help="Folder of the radiographs; default: MIMIC_CXR_JPG_ROOT.")
    ] = None,
    report_images: Annotated[
        Path | None, typer.Option(help="Folder of the report images; default: with the annotations.")
    ] = None,
    corrections: Annotated[Path | None, typer.Option(help="Folder that corrected annotations are saved in.")] = None,
    rater: Annotated[str | None, typer.Option(help="The only one who rates a review sample here.")] = None,
    engine: EngineOptions = NO_ENGINE,
    image_class: Annotated[
        Governance, typer.Option(help="Class of images that are brought to Ask; a picture does not say it itself.")
    ] = Governance.CREDENTIALED,
    port: Annotated[int | None, typer.Option(help="Port on 127.0.0.1; default: the first free one from 7860.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = False,
) -> None:
    """Look at releases, answers and report pages in the browser: correct, rate, ask; for this machine alone."""
    from medvqa_core.llm.connecting import connect_model
    from medvqa_hub.explore.opening import ExploreOptions
    from medvqa_hub.explore.serving import explore as serve

    connect = checkpoint = None
    engine, model = engine.split_checkpoint()
    if engine.engines:
        ready = replace(engine, wait=engine.wait or "10s")
        connect = lambda governance: connect_model(ready, governance)  # noqa: E731
    else:
        engine.check_unused(str(model))
        checkpoint = Path(model) if model else None
    asked = ExploreOptions(
        tuple(predictions or ()), image_root, report_images, corrections, rater, connect, checkpoint, image_class
    )
    serve(folders or (), asked, port, browser)


@app.command()
def purge(
    governance: Annotated[Governance, typer.Option("--class", help="Class of the rows to remove.")],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Workspaces, predictions, or folders above them. The cache of datasets is always searched."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the files. Without it, they are only listed.")] = False,
) -> None:
    """List or delete caches, intermediate files and Arrow copies with rows of a class, but never the source itself."""
    from datasets import config

    from medvqa_hub.purge import delete_files, find_files

    if not governance.private:
        raise typer.BadParameter("only rows of class credentialed have to be deleted", param_hint="--class")
    cache = Path(config.HF_DATASETS_CACHE)
    files = find_files([*([cache] if cache.is_dir() else []), *(folders or ())], governance)
    groups = Counter((path.parent, evidence) for path, evidence in files.items())
    for (folder, evidence), count in sorted(groups.items()):
        typer.echo(f"  {count:,} files: {folder} ({evidence})")
    typer.echo(f"{len(files):,} files of class {governance}")
    if files and yes:
        typer.echo(f"{delete_files(files):,} files deleted (not overwritten; snapshots and backups may keep copies)")
    elif files:
        typer.echo("Nothing was deleted. Add --yes to delete these files.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: runs the command and exits with its code."""
    for name, value in {"HF_HUB_DISABLE_TELEMETRY": "1", **THREADS_THAT_WAIT}.items():
        os.environ.setdefault(name, value)  # read when torch is first imported, which is later
    process, previous = os.getpid(), signal.getsignal(signal.SIGTERM)

    def stop(number: int, _: object) -> NoReturn:
        """An orderly end: without it, worker processes would outlive this one and wait for work for ever."""
        if os.getpid() != process:  # a worker that was forked: nothing of it is to be put in order
            os._exit(128 + number)
        signal.signal(number, signal.SIG_IGN)  # a second one does not interrupt the end
        raise Terminated(128 + number)

    if previous is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)
    sys.exit(run(arguments))


class Terminated(SystemExit):
    """SIGTERM, as batch systems and containers send it."""


def check_arguments_are_utf8(arguments: Sequence[str]) -> None:
    """Raise a ConfigError where an argument holds bytes that are no text here: files of rows could not name it."""
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            raise ConfigError(
                f"{ascii(argument)}: bytes that are no text in the locale {sys.getfilesystemencoding()}; set "
                "PYTHONUTF8=1, or rename the file or folder in UTF-8"
            ) from None


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code. Errors that a user can fix become one line on standard error."""
    try:
        if "MASTER_ADDR" in os.environ:  # of a process group
            check_launcher(os.environ)
        check_arguments_are_utf8(sys.argv[1:] if arguments is None else arguments)
        typer.main.get_command(app).main(args=arguments, prog_name="medvqa-hub")
    except SystemExit as done:
        if done.code == 130 or isinstance(done, Terminated):
            print(STOPPED, file=sys.stderr)
        return done.code or 0
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return 130
    except MedvqaError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1
    except OSError as error:  # of the machine: a full disk behind standard output, a working folder that is gone
        if error.errno is None or isinstance(error, ConnectionError):
            raise
        name = f"{error.filename}: " if error.filename else ""
        print(f"error: {name}{error.strerror}; {suggest_remedy(error)}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"error: out of memory ({one_line(error)}); give less at once, or use a larger machine", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    main()
