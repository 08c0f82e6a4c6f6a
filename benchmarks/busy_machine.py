"""How much slower is a training step where every core is busy with something else? Threads that spin, or sleep.

One step of the tiny SwinVED's stage 2 (encoder and decoder forward and backward, AdamW; 8 studies x 8 questions), on
all cores, in a process of its own: alone, and with one endless loop a core beside it. `spinning` is OpenMP's own
behaviour: a thread that has done its share turns in a loop until the others have, and takes from them the core that
they need. `asleep` gives the core away at once (OMP_WAIT_POLICY=PASSIVE), `briefly` after some microseconds: what
`medvqa-hub` sets. The six cases take turns, ROUNDS times; a figure is the median over the rounds of a process's median
step.

Run: python benchmarks/busy_machine.py [--niceness -20]
On a machine that others use, --niceness below 0 (root; started by `setsid -w`) keeps them out of all cases alike.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timing import write_result

from medvqa_hub.cli import THREADS_THAT_WAIT

ROUNDS, STEPS, WARM_UP = 3, 10, 2
STUDIES, QUESTIONS = 8, 8
LOOP = "while True: pass"
WAYS = {"spinning": {}, "asleep": {"OMP_WAIT_POLICY": "PASSIVE"}, "briefly": THREADS_THAT_WAIT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--niceness", type=int, default=0)
    parser.add_argument("--steps-of", type=Path, help=argparse.SUPPRESS)  # this script's own child
    given = parser.parse_args()
    if given.steps_of:
        print(time_steps(given.steps_of))
        return
    set_niceness(given.niceness)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))
        seconds = measure(Path(folder))
    ratios = {way: round(seconds[f"{way}, busy"] / seconds[f"{way}, quiet"], 2) for way in WAYS}
    for name, value in seconds.items():
        print(f"{name}: {1000 * value:.0f} ms a step")
    print(f"slower on the busy machine: {ratios}")
    rounded = {name: round(1000 * value, 1) for name, value in seconds.items()}
    figures = {"milliseconds": rounded, "busy_over_quiet": ratios, "rounds": ROUNDS, "steps": STEPS}
    write_result("busy_machine", {**figures, "niceness": given.niceness, "load_before": round(load, 1)})


def set_niceness(niceness: int) -> None:
    """Of this process and its children; and of their session, which is what Linux weighs where it groups processes."""
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    session = Path("/proc/self/autogroup")
    if niceness and session.exists():
        session.write_text(str(niceness))


def measure(folder: Path) -> dict[str, float]:
    """Median seconds of a step in each case, the cases in turn."""
    seconds: dict[str, list[float]] = {f"{way}, {how}": [] for way in WAYS for how in ("quiet", "busy")}
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    for _ in range(ROUNDS):
        for way, variables in WAYS.items():
            for how in ("quiet", "busy"):
                with busy_cores(os.cpu_count() or 1 if how == "busy" else 0):
                    command = [sys.executable, __file__, "--steps-of", str(folder)]
                    done = subprocess.run(
                        command, env={**plain, **variables}, stdout=subprocess.PIPE, text=True, check=True
                    )
                seconds[f"{way}, {how}"].append(float(done.stdout.split()[-1]))
    return {name: statistics.median(values) for name, values in seconds.items()}


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """`count` processes that do nothing but run."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def draw(folder: Path) -> None:
    """The studies of the step."""
    from medvqa_hub.demo.training import make_release

    make_release(folder, 3 * STUDIES, seed=0)


def time_steps(folder: Path) -> float:
    """Median seconds of a step; all threads that torch takes by itself."""
    import torch

    from medvqa_hub.training.recipes import load_recipe
    from medvqa_hub.training.study_batches import StudyBatches, StudyCollator
    from medvqa_hub.training.study_questions import StudyQuestions
    from medvqa_hub.training.training_data import load_data

    recipe = load_recipe("tiny-swin-ved-stage2")
    data = load_data(folder / "cxr" / "release", folder / "phantom", recipe.data)
    model, processor = recipe.open_model(None, data.texts())
    questions = StudyQuestions(data.train, "split train")
    batch = dict(StudyBatches(questions, StudyCollator(processor, recipe.family), 1, STUDIES, STUDIES, QUESTIONS)[0])
    del batch["rows"], batch["number"]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    seconds = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        model.train()(**batch).loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[WARM_UP:])


if __name__ == "__main__":
    main()
