"""The command `medvqa-hub`. Heavy imports wait until a command runs, so that `--help` is fast.

Exit codes: 0 success, 1 error (one line on standard error), 2 wrong usage, 130 Ctrl-C, 143 SIGTERM.
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
from medvqa_hub.evaluation.audit_cli import app as audit_app
from medvqa_hub.evaluation.cli import app as evaluate_app
from medvqa_hub.evaluation.export_cli import app as export_app
from medvqa_hub.evaluation.predict_cli import predict
from medvqa_hub.launching import QUIET, check_launcher, print_error
from medvqa_hub.publishing.cli import app as push_app
from medvqa_hub.training.cli import app as train_app
from mimic_cxr_vqa.cli import app as cxr_app
from rjua_meddqa.cli import app as meddqa_app

STOPPED = "Interrupted. Run the same command again to resume."
NO_TELEMETRY = {"HF_HUB_DISABLE_TELEMETRY": "1", "ORT_DISABLE_TELEMETRY": "1"}  # the second is ONNX Runtime's
# Waiting OpenMP threads spin only briefly. Long spinning takes the cores of a busy machine, and none at all makes a
# quiet one a third slower. GOMP_SPINCOUNT is for GNU's library.
OPENMP_SETTINGS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}

# Plain tracebacks, since decorated ones can print local variables with report text.
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Medical visual question answering on the Hugging Face stack.",
)
app.add_typer(cxr_app, name="cxr")
app.add_typer(meddqa_app, name="meddqa")
app.add_typer(train_app, name="train")
app.command()(predict)
app.add_typer(evaluate_app, name="evaluate")
app.add_typer(audit_app, name="audit")
app.add_typer(push_app, name="push")
app.add_typer(export_app, name="export")


@app.command()
@with_engine_options(
    without={"slots", "load_in", "i_run_this_server", "attestation", "any_model"},
    engines="Only check an OpenAI-compatible server, such as http://127.0.0.1:8000/v1.",
    wait="How long to wait for the server: 90s, 10m. Default: 10s.",
)
def doctor(
    engine: EngineOptions,
    mimic_root: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR-JPG to check.")] = None,
    reports: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR or its reports zip.")] = None,
) -> None:
    """Check the installation and the data, with a remedy for each problem."""
    from medvqa_hub.doctor import examine, print_checks

    if engine.engines:
        from medvqa_hub.engine_check import examine_engine

        healthy = print_checks({f"Server {engine.engines[0]}": examine_engine(engine)})
    else:
        engine.check_unused("doctor without --engine")
        healthy = examine(mimic_root, reports)
    if not healthy:
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
        list[Path], typer.Argument(help="Output folders of evaluate --scored, or their scored-….jsonl files.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for comparison.csv and comparison.png.")] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples. Tests use five times as many.", min=1)] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    common: Annotated[
        bool,
        typer.Option(
            "--common",
            help="Only compare the questions that all runs have. By default, runs with different "
            "questions are refused.",
        ),
    ] = False,
) -> None:
    """Compare evaluations on the same questions in a table with 95% intervals and paired tests."""
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
    model="Model name on the server. Without --engine: folder of a SwinVED or BLIP-2-MultiView checkpoint.",
    wait="How long to wait for a server that is down: 90s, 10m, 2h. Default: 10s.",
)
def explore(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Releases, the authors' CSV files, annotated reports, restored pages or a review. Default: samples."
        ),
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(help="Output folder of evaluate cxr, whose answers are shown beside the reference. Repeatable."),
    ] = None,
    image_root: Annotated[
        Path | None, typer.Option(help="Folder of the radiographs. Default: MIMIC_CXR_JPG_ROOT.")
    ] = None,
    report_images: Annotated[
        Path | None, typer.Option(help="Folder of the report images. Default: beside the annotations.")
    ] = None,
    corrections: Annotated[Path | None, typer.Option(help="Folder for corrected annotations.")] = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of corrections by one annotator. Pass it twice to adjudicate between two annotators."
        ),
    ] = None,
    rater: Annotated[
        str | None, typer.Option(help="Show a review sample for this rater only. Default: all raters.")
    ] = None,
    engine: EngineOptions = NO_ENGINE,
    image_class: Annotated[
        Governance, typer.Option(help="Class of images that are uploaded to Ask.")
    ] = Governance.CREDENTIALED,
    port: Annotated[int | None, typer.Option(help="Port on 127.0.0.1. Default: the first free one from 7860.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = False,
) -> None:
    """Browse releases, answers and report pages in a local browser. Correct annotations, rate answers and ask
    questions."""
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
    explore_options = ExploreOptions(
        tuple(predictions or ()),
        image_root,
        report_images,
        corrections,
        tuple(compare or ()),
        rater,
        connect,
        checkpoint,
        image_class,
    )
    serve(folders or (), explore_options, port, browser)


@app.command()
def purge(
    governance: Annotated[
        Governance,
        typer.Option("--class", help="Governance class of the files to remove. Only credentialed is accepted."),
    ],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Workspaces, predictions, or folders above them. The cache of datasets is always searched."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the files. Without it, they are only listed.")] = False,
) -> None:
    """List or delete caches, intermediate files and Arrow copies of one governance class. The source is never
    deleted."""
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
        typer.echo(f"{delete_files(files):,} files deleted but not overwritten. Snapshots and backups may keep copies")
    elif files:
        typer.echo("Nothing was deleted. Add --yes to delete these files.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: runs the command and exits with its code."""
    for name, value in {**NO_TELEMETRY, **OPENMP_SETTINGS}.items():
        os.environ.setdefault(name, value)  # read when torch is first imported, which is later
    process, previous = os.getpid(), signal.getsignal(signal.SIGTERM)

    def stop(number: int, _: object) -> NoReturn:
        """Exit normally, so that worker processes end too."""
        if os.getpid() != process:  # a forked worker
            os._exit(128 + number)
        signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the exit
        raise Terminated(128 + number)

    if previous is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)
    sys.exit(run(arguments))


class Terminated(SystemExit):
    """The exit after SIGTERM."""


def check_arguments_are_utf8(arguments: Sequence[str]) -> None:
    """Raise a ConfigError if an argument is not valid text, since output files could not name it."""
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            raise ConfigError(
                f"{ascii(argument)} is not valid text in the locale {sys.getfilesystemencoding()}. Set PYTHONUTF8=1, "
                "or rename the file or folder in UTF-8."
            ) from None


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code. Errors that a user can fix are printed in one line."""
    try:
        if "MASTER_ADDR" in os.environ:  # in a process group
            check_launcher(os.environ)
        check_arguments_are_utf8(sys.argv[1:] if arguments is None else arguments)
        typer.main.get_command(app).main(args=arguments, prog_name="medvqa-hub")
    except SystemExit as done:
        if (done.code == 130 or isinstance(done, Terminated)) and QUIET not in os.environ:
            print(STOPPED, file=sys.stderr)
        return done.code if isinstance(done.code, int) else int(bool(done.code))
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return 130
    except MedvqaError as error:
        print_error(f"error: {one_line(error)}")
        return 1
    except OSError as error:  # such as a full disk behind standard output
        if error.errno is None or isinstance(error, ConnectionError):
            raise
        name = f"{error.filename}: " if error.filename else ""
        print_error(f"error: {name}{error.strerror}; {suggest_remedy(error)}")
        return 1
    except MemoryError as error:
        print_error(f"error: out of memory ({one_line(error)}). Use less data at once or a larger machine.")
        return 1
    return 0


if __name__ == "__main__":
    main()
