"""Training a classifier: the loop, and the folder that keeps what came of it."""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from gpu_backend.profiler import Profile

from . import checkpoint
from .compiled import compiled
from .data import DataLoader
from .errors import UsageError
from .functional import cross_entropy
from .nn import Module
from .optim import Optimizer
from .tape import no_grad
from .tensor import Tensor, tensor

STEPS_BETWEEN_READS = 10
FILES = ("config.json", "metrics.jsonl", "model.safetensors", "loss.png", "confusion.png", "profile.txt", "trace.json")


class TrainingStopped(RuntimeError):
    """Training cannot go on; the text says why, in a sentence for the user."""


@dataclass(frozen=True)
class Settings:
    """What a run is told: passes over the data, examples per step, learning rate, weight decay, seed of weights and
    order.
    """

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    seed: int

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise UsageError(f"epochs and batch size are positive numbers, not {self.epochs} and {self.batch_size}")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise UsageError(f"the learning rate is a positive number, not {self.lr}")


@dataclass(frozen=True)
class EpochMetrics:
    """One line of ``metrics.jsonl``: mean losses, accuracy between 0 and 1, seconds of training and validation."""

    epoch: int
    train_loss: float
    val_loss: float
    val_accuracy: float
    seconds: float


class RunFolder:
    """``config.json``, ``metrics.jsonl``, ``model.safetensors``, ``loss.png`` and ``confusion.png`` of one run.

    And ``profile.txt`` and ``trace.json``, if it was profiled.
    """

    def __init__(self, path: str | Path, config: dict[str, Any]) -> None:
        """Make the folder and write the configuration: a folder that cannot be written fails before training does."""
        self.path = Path(path)
        if any((self.path / name).exists() for name in FILES):
            raise FileExistsError(f"{self.path} already holds a run; choose another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        checkpoint.write_whole(self.path / "config.json", (json.dumps(config, indent=2) + "\n").encode())
        self.history: list[EpochMetrics] = []

    def epoch(self, metrics: EpochMetrics, model: Module) -> None:
        """Keep the result of an epoch: a line of metrics, and the model as it is now."""
        self.history.append(metrics)
        self.save(model)
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(asdict(metrics)) + "\n")

    def save(self, model: Module) -> None:
        """Write the model, whole."""
        checkpoint.save(self.path / "model.safetensors", model.state_dict())

    def profile(self, measured: Profile) -> None:
        """Keep what a profiler measured: a table, and a trace for https://ui.perfetto.dev."""
        (self.path / "profile.txt").write_text(measured.table() + "\n", encoding="utf-8")
        measured.chrome_trace(self.path / "trace.json")

    def plot(self, title: str) -> None:
        """Draw both losses and the accuracy over the epochs."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        losses = figure.subplots()
        epochs = [row.epoch for row in self.history]
        losses.plot(epochs, [row.train_loss for row in self.history], label="training loss")
        losses.plot(epochs, [row.val_loss for row in self.history], label="validation loss")
        losses.set(xlabel="epoch", ylabel="cross entropy", title=title, yscale="log")
        accuracy = losses.twinx()
        accuracy.plot(epochs, [row.val_accuracy for row in self.history], "k:", label="validation accuracy")
        accuracy.set_ylabel("accuracy")
        figure.legend(loc="outside lower center", ncols=3)
        figure.savefig(self.path / "loss.png", dpi=120)

    def confusion(self, predicted: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
        """Draw how often each class was taken for each other one."""
        from matplotlib.figure import Figure

        classes = int(max(predicted.max(), target.max())) + 1
        counts = np.bincount(target * classes + predicted, minlength=classes**2).reshape(classes, classes)
        figure = Figure(figsize=(6, 6), layout="constrained")
        axes = figure.subplots()
        axes.imshow(np.sqrt(counts), cmap="Blues")  # the root, so that the few mistakes are seen beside the many hits
        for row, column in np.argwhere(counts):
            light = counts[row, column] > counts.max() / 4
            axes.text(column, row, counts[row, column], ha="center", va="center", color="white" if light else "black")
        axes.set(
            xlabel="predicted", ylabel="true", xticks=range(classes), yticks=range(classes),
            title=f"{np.trace(counts)} of {counts.sum()} right",
        )  # fmt: skip
        figure.savefig(self.path / "confusion.png", dpi=120)


class TrainingStep:
    """Forward, backward and update on one batch, captured once for each shape unless ``is_eager``.

    ``total`` sums up the loss of every example since it was set to 0; it stays on the device.
    """

    def __init__(self, model: Module, optimizer: Optimizer, is_eager: bool) -> None:
        self._model = model
        self._optimizer = optimizer
        self._device = next(model.parameters()).device
        self._compiled = None if is_eager else compiled(self._step)
        self.total = tensor(0.0, device=self._device)

    def __call__(self, x: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> Tensor:
        """The mean loss of a batch, before the update."""
        given, wanted = tensor(x, device=self._device), tensor(target, device=self._device)
        loss: Tensor = (self._compiled or self._step)(given, wanted)
        return loss.detach()

    def _step(self, x: Tensor, target: Tensor) -> Tensor:
        self._optimizer.zero_grad()
        loss = cross_entropy(self._model(x), target)
        loss.backward()
        self._optimizer.step()
        self.total.add_(loss.detach() * float(x.shape[0]))
        return loss


def fit(
    model: Module,
    optimizer: Optimizer,
    train: DataLoader,
    validation: DataLoader,
    epochs: int,
    folder: RunFolder,
    device_name: str,
    show_progress: bool = True,
    is_eager: bool = False,
) -> bool:
    """Train for ``epochs`` passes, validating and saving after each. Returns False if the user stopped it with Ctrl-C,
    which lets the step at hand finish and saves the model. TrainingStopped if the loss is not finite.

    Steps are compiled, unless ``is_eager``.
    """
    training_step = TrainingStep(model, optimizer, is_eager)
    bar = tqdm(total=epochs * len(train), unit="batch", disable=not show_progress, dynamic_ncols=True)
    with bar, interrupt_flag() as interrupted:
        for epoch in range(1, epochs + 1):
            start = time.perf_counter()
            bar.set_description(f"epoch {epoch}/{epochs} on {device_name}")
            model.train()
            train_loss = train_epoch(training_step, train, bar, interrupted)
            if interrupted.is_set():
                folder.save(model)
                return False
            val_loss, val_accuracy = evaluate(model, validation)
            seconds = round(time.perf_counter() - start, 3)
            folder.epoch(EpochMetrics(epoch, train_loss, val_loss, val_accuracy, seconds), model)
    return True


def train_epoch(training_step: TrainingStep, batches: DataLoader, bar: Any, interrupted: threading.Event) -> float:
    """One pass over the data; the mean loss over its examples."""
    training_step.total.zero_()
    seen, start = 0, time.perf_counter()
    for step, (x, target) in enumerate(batches, 1):
        loss = training_step(x, target)
        seen += len(x)
        if step % STEPS_BETWEEN_READS == 0 or step == len(batches):
            current = float(loss)  # the host waits for the device here, and nowhere else in this loop
            if not math.isfinite(current):
                raise TrainingStopped(
                    f"The loss became {current} at step {step} of this epoch; a smaller learning rate may help."
                )
            bar.set_postfix_str(f"loss {current:.4f}, {seen / (time.perf_counter() - start):.0f} samples/s")
        bar.update()
        if interrupted.is_set():
            break
    mean = float(training_step.total) / seen
    if not math.isfinite(mean):
        raise TrainingStopped(f"The loss of this epoch is {mean}; a smaller learning rate may help.")
    return mean


def evaluate(model: Module, batches: DataLoader) -> tuple[float, float]:
    """Mean loss and accuracy over all examples."""
    model.eval()
    device = next(model.parameters()).device
    loss = correct = 0.0
    count = 0
    with no_grad():
        for x, target in batches:
            logits = model(tensor(x, device=device))
            loss += float(cross_entropy(logits, target, reduction="sum"))
            correct += float((np.argmax(logits.numpy(), axis=1) == target).sum())
            count += len(x)
    return loss / count, correct / count


def predictions(model: Module, batches: DataLoader) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The class that the model gives to each example, and its own."""
    model.eval()
    device = next(model.parameters()).device
    with no_grad():
        found = [(np.argmax(model(tensor(x, device=device)).numpy(), axis=1), target) for x, target in batches]
    predicted, targets = zip(*found, strict=True)
    return np.concatenate(predicted), np.concatenate(targets)


@contextmanager
def interrupt_flag() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets instead of raising; the second raises. Off the main thread it stays unset."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def note(signum: int, frame: Any) -> None:
        flag.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
