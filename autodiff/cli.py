"""The command ``shadertape``: train, setup, check, info."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer

import gpu_backend
from gpu_backend import DeviceError, OutOfMemoryError, profiler
from gpu_backend.adapter import versions
from gpu_backend.device import GPUDevice
from gpu_backend.install import SetupError, ensure_adapter
from gpu_backend.op_table import ROWS
from gpu_backend.op_table.run import report
from gpu_backend.register import REGISTERED

from .data import DataLoader
from .errors import CheckpointError, UsageError
from .optim import AdamW
from .random import manual_seed
from .recipes import RECIPES, MissingExtraError
from .recipes.recipe import require
from .trainer import RunFolder, Settings, TrainingStopped, fit, predictions

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Train on any GPU through WebGPU.")

SAID_IN_A_SENTENCE = (
    CheckpointError,
    DeviceError,
    MissingExtraError,
    OSError,
    OutOfMemoryError,
    SetupError,
    TrainingStopped,
    UsageError,
)


def main() -> None:
    """Run the command; what the user can mend is told in a sentence, with exit status 1."""
    if sys.platform.startswith("linux"):
        # Mesa prints an error where this is not set, though it wants it for windows only.
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    try:
        app()
    except SAID_IN_A_SENTENCE as error:
        fail(str(error))


def fail(sentence: str) -> NoReturn:
    """Print ``sentence`` and leave with status 1."""
    print(f"shadertape: {sentence}", file=sys.stderr)
    raise SystemExit(1)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help=f"one of: {', '.join(RECIPES)}")],
    device: Annotated[
        str | None, typer.Option(help="hardware, software, host, or a piece of an adapter's name")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="passes over the data")] = None,
    batch_size: Annotated[int | None, typer.Option(help="examples per step")] = None,
    lr: Annotated[float | None, typer.Option(help="learning rate")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the weights and of the order of examples")] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="measure kernels and ops: profile.txt, trace.json")
    ] = False,
    eager: Annotated[bool, typer.Option("--eager", help="run each step op by op, without capture and replay")] = False,
    data: Annotated[Path | None, typer.Option(help="folder with your own data, for mnist-cnn: its IDX files")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results, runs/<recipe> by default")] = None,
) -> None:
    """Train a model and keep the result in a folder."""
    if recipe not in RECIPES:
        raise UsageError(f"no recipe {recipe!r}; there are {', '.join(RECIPES)}")
    job = RECIPES[recipe]
    if data is not None and not job.takes_data:
        takers = ", ".join(name for name, other in RECIPES.items() if other.takes_data)
        raise UsageError(f"{recipe} brings its own data; --data is for {takers}")
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "seed": seed}
    settings = Settings(**{**asdict(job.defaults), **{k: v for k, v in given.items() if v is not None}})
    target = gpu_backend.set_default_device(device) if device else gpu_backend.device()
    require("matplotlib.figure", "matplotlib", recipe)
    training, validation = job.load(data)
    manual_seed(settings.seed)
    model = job.build()
    config = {
        "recipe": recipe,
        **asdict(settings),
        "device": target.summary,
        "eager": eager,
        "versions": {"shadertape": gpu_backend.__version__, "numpy": np.__version__, **versions()},
        "parameters": sum(parameter.size for parameter in model.parameters()),
    }
    validation_batches = DataLoader(*validation, batch_size=512)
    folder = RunFolder(out or _next_folder(recipe), config)
    with profiler.profile(target) if profile else nullcontext() as measured:
        finished = fit(
            model,
            AdamW(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay),
            DataLoader(*training, batch_size=settings.batch_size, shuffle=True, seed=settings.seed),
            validation_batches,
            settings.epochs,
            folder,
            target.name,
            is_eager=eager,
        )
    if measured is not None:
        folder.profile(measured)
        print(measured.table())
    if folder.history:
        folder.plot(f"{recipe} on {target.name}")
    if not finished:
        print(f"Stopped. The model as it was is in {folder.path / 'model.safetensors'}.", file=sys.stderr)
        raise SystemExit(130)
    folder.confusion(*predictions(model, validation_batches))
    last = folder.history[-1]
    print(f"Validation accuracy {last.val_accuracy:.4f} after {last.epoch} epochs. Results: {folder.path}")


@app.command()
def setup() -> None:
    """See to an adapter: report the one that is there, or install a software adapter where apt can."""
    print(ensure_adapter())


@app.command()
def check(
    device: Annotated[
        str | None,
        typer.Option(help="one device: hardware, software, or a piece of an adapter's name; else every adapter"),
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option("--op", help="an op by its name, several times; else every op")
    ] = None,
    imports: Annotated[
        list[str] | None, typer.Option("--import", help="a module to import first, which registers ops of its own")
    ] = None,
) -> None:
    """Run every op of the catalogue on this machine's adapters, against numpy in float64."""
    sys.path.insert(0, os.getcwd())
    for module in imports or []:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(f"check: cannot import {module}: {error}") from error
    rows = {**ROWS, "registered": REGISTERED}
    if op:
        unknown = sorted(set(op) - {row.op.name for family in rows.values() for row in family})
        if unknown:
            raise UsageError(f"check: no op {', '.join(unknown)}; a module that registers it is named by --import")
        rows = {name: [row for row in family if row.op.name in op] for name, family in rows.items()}
    targets = [gpu_backend.device(device)] if device else [gpu_backend.device(a.name) for a in gpu_backend.adapters()]
    if not targets:
        raise SetupError("check: no adapter was found; `shadertape setup` sees to one")
    reports = [report(target, rows) for target in targets]
    for text, _ in reports:
        print(text)
    if any(failures for _, failures in reports):
        raise SystemExit(1)


@app.command()
def info() -> None:
    """Show adapters, limits, features, drivers, versions and memory counters."""
    print(f"shadertape {gpu_backend.__version__}, numpy {np.__version__}", end="")
    print("".join(f", {name} {number}" for name, number in versions().items()))
    found = gpu_backend.adapters()
    print(f"\nAdapters ({len(found)}):" if found else "\nNo adapter was found; `shadertape setup` sees to one.")
    for adapter in found:
        print(f"  {adapter.name}: {adapter.kind}, {adapter.backend}, driver {adapter.driver or 'unknown'}")
    device = gpu_backend.device()
    print(f"\nIn use: {device.summary}")
    if isinstance(device, GPUDevice):
        print(f"  features: {', '.join(sorted(device.features))}")
        print(f"  {'limit':45} {'adapter':>12} {'in use':>12}")
        own = device.adapter.limits
        for name in sorted(own):
            if (
                any(word in name for word in ("buffer", "compute", "bind", "storage", "uniform"))
                and "vertex" not in name
            ):
                print(f"  {name:45} {own[name]:12} {device.limits[name]:12}")
    print("\nMemory of this process on it:")
    for name, value in asdict(gpu_backend.memory.stats()).items():
        print(f"  {name:18} {value}")


def _next_folder(recipe: str) -> Path:
    """runs/<recipe>, or the first of runs/<recipe>-2, -3, ... that is not there yet."""
    first = Path("runs") / recipe
    return (
        first
        if not first.exists()
        else next(path for number in count(2) if not (path := first.with_name(f"{recipe}-{number}")).exists())
    )
