"""`medvqa-hub evaluate …`. Heavy imports wait until a command runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.llm.options import EngineOptions, with_engine_options
from medvqa_hub.launching import Launch

LONGEST_SIDE = 1536  # that of rjua_meddqa.inference.page_images, which takes long to import
_PREDICTIONS = (
    "Score answers made elsewhere: JSON lines, CSV, lmms-eval's samples, VLMEvalKit's file. What is written has the "
    "data's governance class, or a stricter one that the file states; a file cannot lower it."
)
app = typer.Typer(no_args_is_help=True, help="Score a model: predictions first, then tables from them.")


class Profile(StrEnum):
    default = "default"
    paper = "paper"


class MissingImages(StrEnum):
    error = "error"
    skip = "skip"


class FailedAnswers(StrEnum):
    exclude = "exclude"
    empty = "empty"


class RougeUnits(StrEnum):
    characters = "characters"
    words = "words"


class MeddqaInput(StrEnum):
    image = "image"
    esra = "esra"
    both = "image+esra"


class Context(StrEnum):
    yes = "yes"
    no = "no"


class MeddqaProfile(StrEnum):
    ours = "ours"
    released = "released"


@app.callback()
def _group() -> None:
    pass


@app.command()
@with_engine_options(
    model="Checkpoint folder, output folder of train, or Hub repository. With --engine: the model of the server."
)
def cxr(
    context: typer.Context,
    data: Annotated[Path, typer.Option(help="A release, the folder it was built in, or the authors' CSV files.")],
    out: Annotated[Path, typer.Option(help="Folder for predictions, results, chart and examples.")],
    engine: EngineOptions,
    layout: Annotated[
        str | None,
        typer.Option(help="The data are a public set as published: vqa-rad, slake, medical-diff-vqa or rexvqa."),
    ] = None,
    split: Annotated[str, typer.Option(help="train, validate or test.")] = "test",
    image_root: Annotated[Path | None, typer.Option(help="Folder of the images; default: MIMIC_CXR_JPG_ROOT.")] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many studies only.")] = None,
    shuffle_images: Annotated[
        bool, typer.Option(help="Also evaluate with every study's images taken from another patient.")
    ] = False,
    shuffle_seed: Annotated[int, typer.Option(help="Seed of that permutation.")] = 0,
    blank_images: Annotated[bool, typer.Option(help="Also evaluate with images without content.")] = False,
    profile: Annotated[
        Profile, typer.Option(help="Metrics as in the paper (needs Java and its encoder), or without those.")
    ] = Profile.default,
    encoder: Annotated[
        str | None,
        typer.Option(help="Encoder of BERTScore: a folder, a Hub id, minilm or none."),
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="Hidden layer of that encoder; default: 5.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Rescale BERTScore: computed (from the split's references), a table LAYER,P,R,F, or none."),
    ] = None,
    beams: Annotated[int, typer.Option(help="Beams; 1 is greedy.")] = 2,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Longest answer, in tokens; default: the checkpoint's own.")
    ] = None,
    bf16: Annotated[bool, typer.Option(help="Weights in bfloat16; needs a GPU.")] = False,
    questions_per_batch: Annotated[int, typer.Option(help="Questions answered at once, of whole studies.")] = 96,
    retry_failed: Annotated[bool, typer.Option(help="Ask failed questions again.")] = False,
    missing_images: Annotated[
        MissingImages, typer.Option(help="Stop at a missing image, or leave its study out.")
    ] = MissingImages.error,
    failed: Annotated[
        FailedAnswers, typer.Option(help="Leave failed answers out of the scores, or score them as empty.")
    ] = FailedAnswers.exclude,
    examples: Annotated[int, typer.Option(min=0, help="Studies pictured with their answers; 0: no picture.")] = 4,
    scored: Annotated[
        bool, typer.Option("--scored", help="Also write scored.jsonl: each question, answer, reference and its scores.")
    ] = False,
    radiology: Annotated[
        bool, typer.Option("--radiology", help="Also RadGraph, CheXbert and the challenge's score (extra radiology).")
    ] = False,
    predictions: Annotated[
        Path | None,
        typer.Option(help=_PREDICTIONS),
    ] = None,
    indication: Annotated[
        bool, typer.Option("--indication", help="Tell the model of --engine why the examination was made.")
    ] = False,
    bare_question: Annotated[
        bool, typer.Option("--bare-question", help="Ask --engine as train vlm trains: images and question, no more.")
    ] = False,
    image_side: Annotated[
        int, typer.Option(min=32, help="Images for --engine: grey, shorter side at most so many pixels.")
    ] = 512,
    launch: Launch = None,
) -> None:
    """Answer a split's questions and print the paper's Table 4 row; a stopped run goes on where it was."""
    if launch is not None:
        from medvqa_hub.launching import run_launcher

        code = run_launcher(launch, ["evaluate", "cxr", *_spell_out(context)])
        if code:
            raise typer.Exit(code)
        return
    from medvqa_hub.evaluation.cxr.evaluating import CxrOptions, evaluate_cxr
    from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings
    from medvqa_hub.evaluation.cxr.printing import print_results

    engine, checkpoint = engine.split_checkpoint()
    results = evaluate_cxr(
        CxrOptions(
            model=checkpoint,
            data=data,
            out=out,
            split=split,
            image_root=image_root,
            limit=limit,
            shuffle_images=shuffle_images,
            shuffle_seed=shuffle_seed,
            blank_images=blank_images,
            profile=profile.value,
            encoder=encoder,
            layer=layer,
            baseline=baseline,
            generation=GenerationSettings(beams, max_new_tokens, "bfloat16" if bf16 else "float32"),
            questions_per_batch=questions_per_batch,
            retry_failed=retry_failed,
            missing_images=missing_images.value,
            failed=failed.value,
            examples=examples,
            scored=scored,
            radiology=radiology,
            layout=layout,
            engine=engine,
            predictions=predictions,
            indication=indication,
            bare_question=bare_question,
            image_side=image_side,
        )
    )
    if results:
        print_results(results, out)


@app.command()
@with_engine_options("esra-rules (restored text and rules, no model; the default)")
def meddqa(
    data: Annotated[Path, typer.Option(help="Folder with questions.jsonl and images/, or the authors' release.")],
    out: Annotated[Path, typer.Option(help="Folder for predictions, results and restored pages.")],
    engine: EngineOptions,
    input: Annotated[
        MeddqaInput | None,
        typer.Option(help="What a model sees: the image (default), the restored text (ESRA), or both."),
    ] = None,
    context: Annotated[
        Context | None,
        typer.Option(help="Whether clinical-reasoning questions come with their passage. Default: yes."),
    ] = None,
    shots: Annotated[int, typer.Option(min=0, help="Examples of the same task, from other images.")] = 0,
    shots_seed: Annotated[int, typer.Option(help="Seed that draws the examples.")] = 0,
    prompt: Annotated[
        str | None, typer.Option(help="ours (default), paper (context and question alone), or a file.")
    ] = None,
    longest_side: Annotated[
        int | None, typer.Option(help=f"Pixels of an image's longest side as it is sent. Default: {LONGEST_SIDE}.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of a reply, thoughts included.")] = 1024,
    predictions: Annotated[
        Path | None,
        typer.Option(help=_PREDICTIONS),
    ] = None,
    image_root: Annotated[Path | None, typer.Option(help="Folder of the images; default: images/ of the data.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that read images.")] = 1,
    profile: Annotated[
        MeddqaProfile, typer.Option(help="released: equal to the authors' script; ours: its rules corrected.")
    ] = MeddqaProfile.ours,
    units: Annotated[RougeUnits, typer.Option(help="What our ROUGE-L counts.")] = RougeUnits.characters,
    pages: Annotated[
        Path | None, typer.Option(help="Folder of meddqa esra --out: images read there are not read again.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Ask failed questions again.")] = False,
) -> None:
    """Answer questions about report images and print the paper's Tables 5 to 7; a stopped run goes on."""
    from medvqa_hub.evaluation.meddqa.evaluating import MeddqaOptions, evaluate_meddqa
    from medvqa_hub.evaluation.meddqa.models import ModelOptions
    from medvqa_hub.evaluation.meddqa.printing import print_meddqa

    engine, checkpoint = engine.split_checkpoint()
    if engine.is_language_model:
        asking = ModelOptions(
            engine,
            (input or MeddqaInput.image).value,
            context is not Context.no,
            shots,
            shots_seed,
            prompt or "ours",
            longest_side or LONGEST_SIDE,
            max_tokens,
        )
        named = engine.model or ""
    else:
        asking, named = None, engine.get_single_engine() if engine.engines else checkpoint or "esra-rules"
        others = {"input": input, "context": context, "prompt": prompt, "longest_side": longest_side}
        engine.check_unused(named, shots=shots or None, **others)
    if predictions is not None and (engine.engines or checkpoint):
        raise ConfigError("--predictions are answers already: leave --engine and --model out")
    options = MeddqaOptions(
        named, data, out, image_root, workers, units.value, retry_failed, profile.value, pages, asking, predictions
    )
    print_meddqa(evaluate_meddqa(options), out)


@app.command("meddqa-report")
def meddqa_report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that evaluate meddqa wrote.")],
    out: Annotated[Path, typer.Option(help="Folder for tables.md, tables.csv, figure5.png and page.html.")],
    data: Annotated[Path | None, typer.Option(help="The runs' data, for pictures of wrong answers.")] = None,
    image_root: Annotated[Path | None, typer.Option(help="Folder of the images; default: images/ of the data.")] = None,
    pages: Annotated[
        Path | None, typer.Option(help="Restored pages, to find the places by; default: those of each run.")
    ] = None,
) -> None:
    """Tables 5 to 8 and Figure 5 of any number of runs beside the paper's rows, and one page with errors by cause."""
    from medvqa_hub.evaluation.meddqa.page import write_report

    for line in write_report(runs, out, data, image_root, pages):
        typer.echo(line)


def _spell_out(context: typer.Context) -> list[str]:
    """The options of this command line once more, but for --launch."""
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
