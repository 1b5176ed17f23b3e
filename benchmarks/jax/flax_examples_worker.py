"""flax_examples.py runs this in every process. It trains one of Flax's examples on generated data.

The arguments: the example; "jaxina" or "gloo"; Flax's folder; a folder for the results; the number of steps; the number
of processes that share a part of the batch (tensor parallelism).
"""

from __future__ import annotations

import importlib
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
from absl import logging as absl_logging

import jaxina

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.shared.processes import join_processes

ROOT = Path(__file__).resolve().parents[2]
ROWS = 2  # rows of the batch in every process
# The lines that the examples log for a step. Gemma writes them itself, ImageNet through clu's writer.
LOGGED = {
    "gemma": re.compile(r"Finished training step \d+\. .*Loss: ([\d.naif]+)"),
    "imagenet": re.compile(r"\[\d+\] .*train_loss=([\d.naif]+)"),
}


class Losses(logging.Handler):
    """Collects the losses that an example logs, and the seconds between them."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        super().__init__()
        self._pattern, self._last = pattern, time.monotonic()
        self.loss: list[float] = []
        self.seconds: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if found := self._pattern.search(record.getMessage()):
            now = time.monotonic()
            self.loss.append(float(found.group(1)))
            self.seconds.append(now - self._last)
            self._last = now


def pictures(seed: int) -> Iterator[dict[str, Any]]:
    """Yields batches in the form of ImageNet's pipeline, whose tensors have a method `_numpy`.

    A picture is the colour of its class plus noise.
    """
    rng = np.random.default_rng(seed)
    colours = np.random.default_rng(0).normal(size=(1000, 3))
    while True:
        label = rng.integers(0, 10, ROWS)
        image = colours[label][:, None, None] + rng.normal(size=(ROWS, 224, 224, 3))
        batch = {"image": image.astype(np.float32), "label": label.astype(np.int32)}
        yield {name: SimpleNamespace(_numpy=lambda value=value: value) for name, value in batch.items()}


def imagenet(folder: Path, steps: int, tensor: int) -> Callable[[], Any]:
    pipeline, train = importlib.import_module("input_pipeline"), importlib.import_module("train")
    examples = SimpleNamespace(num_examples=steps * ROWS * jax.process_count())
    train.tfds = SimpleNamespace(
        builder=lambda name: SimpleNamespace(info=SimpleNamespace(splits={"train": examples, "validation": examples}))
    )
    pipeline.create_split = lambda builder, size, **options: pictures(jax.process_index() + 1000 * options["train"])
    config = importlib.import_module("configs.default").get_config()
    config.model, config.batch_size, config.profile = "ResNet18", ROWS * jax.process_count(), False
    config.num_train_steps, config.log_every_steps, config.steps_per_eval = steps, 1, 2
    config.warmup_epochs = 0.0  # the run is one epoch
    return lambda: train.train_and_evaluate(config, str(folder / "work"))


def gemma(folder: Path, steps: int, tensor: int) -> Callable[[], Any]:
    grain, pipeline = importlib.import_module("grain"), importlib.import_module("input_pipeline_grain")
    words = " ".join(file.read_text() for file in sorted((ROOT / "docs").glob("*.md"))).split()
    sentences = [" ".join(words[first : first + 15]) for first in range(0, len(words), 15)]

    def raw(name: str, split: str) -> Any:
        # Processes along the "tensor" axis have the same part of the batch.
        share = sentences[jax.process_index() // tensor :: jax.process_count() // tensor]
        # The example writes into the dicts later on, so every line gets a new one in every epoch.
        return grain.MapDataset.source(share).map(lambda line: {"inputs": line, "targets": line})

    pipeline.get_raw_dataset = raw
    train = importlib.import_module("train")
    # The example's text sampler fails on JAX 0.10.2 ("Incompatible types for broadcasting"), with gloo and with jaxina.
    train.sampler_lib = SimpleNamespace(
        Sampler=lambda **options: lambda *prompts, **options: SimpleNamespace(text=[""])
    )
    config = importlib.import_module("configs.tiny").get_config()
    config = config.replace(
        vocab_path=str(folder.parent / "sentencepiece_model"),  # one for both ways: training it is not deterministic
        vocab_size=512, max_corpus_chars=20_000,
        per_device_batch_size=ROWS * tensor, eval_per_device_batch_size=ROWS * tensor,
        num_train_steps=steps, num_eval_steps=2, warmup_steps=5, max_eval_target_length=128,
        prefetch_num_workers=0, use_bfloat16=False, tensor_parallelism=tensor,
    )  # fmt: skip
    return lambda: train.train_and_evaluate(config, str(folder / "work"))


def main() -> None:
    example, way, flax, folder, steps, tensor = sys.argv[1:]
    sys.path.insert(0, str(Path(flax, "examples", example)))
    if way == "jaxina":
        jaxina.init()
    else:
        join_processes()
    losses = Losses(LOGGED[example])
    absl_logging.set_verbosity(absl_logging.INFO)
    logging.getLogger("absl").addHandler(losses)
    {"imagenet": imagenet, "gemma": gemma}[example](Path(folder), int(steps), int(tensor))()
    if len(losses.loss) != int(steps):
        raise RuntimeError(f"{len(losses.loss)} losses of {steps} steps were logged")
    found: dict[str, Any] = {"loss": losses.loss, "seconds": losses.seconds, "carried": 0, "summed": 0}
    if way == "jaxina":
        found["carried"] = sum(program.carried for program in jaxina.report().programs)
        found["summed"] = jaxina.job.current().statistics()["collectives"]
    if jax.process_index() == 0:
        (Path(folder) / "result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
