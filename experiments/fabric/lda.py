"""Topics of news articles by distributed Gibbs sampling, over unequal links in virtual time (the paper's section 7.1).

    python -m experiments.data.packages                  # once: the articles
    python -m experiments.fabric.lda run                 # each way: minutes
    python -m experiments.fabric.lda table               # iterations and seconds, beside the paper's

The model is how often each word has each topic. A worker has its share of the articles. It takes the model, draws a
topic anew for each of its tokens, and submits what has changed in the counts. An iteration is as many updates as there
are workers. What a dropped update has changed goes with the worker's next one, so no token is ever lost.

A sweep draws for 16 tokens at a time, each from counts without itself. So the tokens of a block do not see each other,
as those of different workers do not either.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import time
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from experiments.data import reuters
from experiments.fabric.baselines import Start, asynchronous, ring
from experiments.fabric.conditions import Cluster
from experiments.fabric.race import Race, mean_age
from experiments.fabric.scheduled import scheduled
from experiments.records import RESULTS, Identified, append, by_id, read

FILE = RESULTS / "fabric_lda.jsonl"
TOPICS = 100
ALPHA, BETA = 0.1, 0.01  # the priors of an article's topics and of a topic's words
ITERATIONS = 300
BLOCK = 16  # tokens that are drawn at once
CLUSTER = Cluster("C1", "N1", step_seconds=0.18)  # "computation cost of 180ms", and as long an exchange as 100 MB take
PAPER = {"ring": (145, 182), "fabric 30": (188, 139), "fabric 60": (239, 169), "async": (300, 1080)}
WAYS: dict[str, Start] = {
    "ring": ring(dealt=True),
    "fabric 30": scheduled(30),
    "fabric 60": scheduled(60),
    "async": asynchronous(),
}


@dataclasses.dataclass(frozen=True)
class Change:
    """What a worker's sweep changes: in the counts, int32 [words, topics], since what the server has of the worker."""

    worker: int
    counts: jax.Array
    topics: jax.Array


class TopicModel:
    """A learner of topics. See `experiments.fabric.learner.AnyLearner`. The model is int32 [words, topics].

    Args:
      workers: each has as many articles as any other, give or take one.
      seed: of the first topics and of the draws.
    """

    def __init__(self, workers: int, seed: int) -> None:
        data = reuters.load()
        self._words = data.vocabulary
        draw = np.random.default_rng(seed)
        self._shards = []
        self._topics = []  # of each worker's tokens: those of its last sweep, and those that the server has
        self._committed = []
        for worker in range(workers):
            mine = draw.permutation(np.flatnonzero(data.train.articles % workers == worker))
            self._shards.append(_Shard.of(data.train.words[mine], data.train.articles[mine] // workers))
            first = jnp.asarray(draw.integers(0, TOPICS, self._shards[-1].words.shape), jnp.int32)
            self._topics.append(first)
            self._committed.append(first)
        self.model = sum(self._counts(w, self._topics[w]) for w in range(workers))
        self.version = 0
        self._key = jax.random.key(seed)
        self._test = data.test

    def change(self, model: jax.Array, worker: int, steps: int) -> Change:
        """Draws the worker's topics anew, so many times."""
        shard, topics = self._shards[worker], self._topics[worker]
        counts = model
        if topics is not self._committed[worker]:  # an update was dropped
            counts = model - self._counts(worker, self._committed[worker]) + self._counts(worker, topics)
        for _ in range(steps):
            self._key, key = jax.random.split(self._key)
            topics, counts = _sweep(shard, topics, counts, key)
        self._topics[worker] = topics
        return Change(worker, counts - model, topics)

    def commit(self, changes: Sequence[Change]) -> None:
        """Adds changes to the counts."""
        for change in changes:
            self.model = self.model + change.counts
            self._committed[change.worker] = change.topics
        self.version += len(changes)

    def score(self) -> float:
        """The mean logarithm of the likelihood of a word: of each test article's second half of tokens, given the
        first."""
        return float(_completion(self.model, jnp.asarray(self._test.words), jnp.asarray(self._test.articles)))

    def _counts(self, worker: int, topics: jax.Array) -> jax.Array:
        return _count(self._shards[worker], topics, self._words)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["words", "articles", "real"], meta_fields=["count"])
@dataclasses.dataclass(frozen=True)
class _Shard:
    """A worker's tokens in blocks, int32 [blocks, BLOCK]. Those that are not real fill the last block."""

    words: jax.Array
    articles: jax.Array
    real: jax.Array
    count: int  # of articles, at least

    @classmethod
    def of(cls, words: np.ndarray, articles: np.ndarray) -> _Shard:
        blocks = 32 * math.ceil(len(words) / BLOCK / 32)  # few shapes, so that little is compiled
        padded = [np.zeros(blocks * BLOCK, np.int32) for _ in range(3)]
        for out, values in zip(padded, (words, articles, np.ones(len(words))), strict=True):
            out[: len(words)] = values
        # Neighbours in the order of the tokens go to different blocks.
        return cls(*(jnp.asarray(out.reshape(BLOCK, blocks).T) for out in padded), count=16)


@functools.partial(jax.jit, static_argnames="words")
def _count(shard: _Shard, topics: jax.Array, words: int) -> jax.Array:
    return jnp.zeros((words, TOPICS), jnp.int32).at[shard.words, topics].add(shard.real)


@jax.jit
def _sweep(shard: _Shard, topics: jax.Array, counts: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws each token's topic from p(topic) ~ (n_article + alpha) (n_word + beta) / (n_topic + words beta)."""
    of_articles = jnp.zeros((shard.count, TOPICS), jnp.int32).at[shard.articles, topics].add(shard.real)
    of_topics = counts.sum(0)
    uniform = jax.random.uniform(key, shard.words.shape)
    vocabulary = counts.shape[0]

    def block(state, row):
        counts, of_articles, of_topics = state
        word, article, real, topic, u = row
        own = real[:, None] * jax.nn.one_hot(topic, TOPICS, dtype=jnp.int32)
        weight = (of_articles[article] - own + ALPHA) * (counts[word] - own + BETA)
        weight = weight / (of_topics - own + vocabulary * BETA)
        total = jnp.cumsum(weight, 1)
        drawn = jnp.minimum((total < u[:, None] * total[:, -1:]).sum(1), TOPICS - 1).astype(jnp.int32)
        change = real[:, None] * (jax.nn.one_hot(drawn, TOPICS, dtype=jnp.int32)) - own
        state = counts.at[word].add(change), of_articles.at[article].add(change), of_topics + change.sum(0)
        return state, drawn

    rows = (shard.words, shard.articles, shard.real, topics, uniform)
    (counts, _, _), drawn = jax.lax.scan(block, (counts, of_articles, of_topics), rows)
    return drawn, counts


@jax.jit
def _completion(counts: jax.Array, words: jax.Array, articles: jax.Array) -> jax.Array:
    of_words = (counts + BETA) / (counts.sum(0) + counts.shape[0] * BETA)
    likely = of_words[words]  # [tokens, topics]
    first = (jnp.arange(len(words)) % 2 == 0).astype(jnp.float32)
    most = 64  # articles
    mix = jnp.full((most, TOPICS), 1 / TOPICS)

    def step(_, mix):
        mine = likely * mix[articles]
        mine = first[:, None] * mine / mine.sum(1, keepdims=True)
        found = jnp.zeros_like(mix).at[articles].add(mine) + ALPHA
        return found / found.sum(1, keepdims=True)

    mix = jax.lax.fori_loop(0, 30, step, mix)
    chance = jnp.log((likely * mix[articles]).sum(1))
    return (chance * (1 - first)).sum() / (1 - first).sum()


@dataclasses.dataclass(frozen=True)
class Setting(Identified):
    """What identifies a race."""

    way: str
    seed: int
    iterations: int


def settings(ways: Iterable[str], seeds: int, iterations: int) -> list[Setting]:
    """Returns the races of ``run``."""
    return [Setting(way, seed, iterations) for seed in range(seeds) for way in ways]


def run(ways: Sequence[str], seeds: int, iterations: int) -> None:
    """Runs the races that are not recorded yet."""
    done = by_id(FILE)
    missing = [s for s in settings(ways, seeds, iterations) if s.id not in done]
    with Progress() as progress:
        task = progress.add_task("races", total=len(missing))
        for setting in missing:
            progress.update(task, description=setting.way)
            workers = CLUSTER.workers
            race = Race(
                setting.way,
                CLUSTER,
                setting.seed,
                TopicModel(workers, setting.seed),
                workers * setting.iterations,
                workers,
            )
            start = time.perf_counter()
            outcome = race.run(WAYS[setting.way], 1e6)
            result = {
                "seconds": outcome.seconds,
                "wall_seconds": round(time.perf_counter() - start, 1),
                "dropped": outcome.dropped,
                "mean_age": mean_age(outcome),
                "scores": [(t, n // workers, score) for t, n, score in outcome.scores],
            }
            append(FILE, setting, result)
            progress.advance(task)


def table(iterations: int) -> None:
    """Prints when each way was as good as the ring after the paper's number of iterations."""
    races: dict[str, list[dict]] = {}
    for record in read(FILE):
        if record["setting"]["iterations"] == iterations:
            races.setdefault(record["setting"]["way"], []).append(record["outcome"])
    at = PAPER["ring"][0]
    target = float(np.mean([smooth(race["scores"])[at - 1][2] for race in races["ring"]]))
    shown = Table(
        "way", "iterations", "the paper", "seconds", "the paper", "a round", "the paper", "dropped", "seeds",
        title=f"{TOPICS} topics, C1, N1, until a word's log likelihood is {target:.3f}: the ring's after {at} rounds",
    )  # fmt: skip
    for way, outcomes in races.items():
        reached = [_first(smooth(outcome["scores"]), target) for outcome in outcomes]
        iterations_taken, seconds = (float(np.mean([r[i] for r in reached])) for i in range(2))
        paper_iterations, paper_seconds = PAPER[way]
        a_round = float(np.mean([o["seconds"] / o["scores"][-1][1] for o in outcomes]))
        dropped = float(np.mean([o["dropped"] / (o["dropped"] + 30 * o["scores"][-1][1]) for o in outcomes]))
        shown.add_row(
            way, f"{iterations_taken:.0f}", str(paper_iterations), f"{seconds:.0f}", str(paper_seconds),
            f"{a_round:.2f} s", f"{paper_seconds / paper_iterations:.2f} s", f"{100 * dropped:.0f} %",
            str(len(reached)),
        )  # fmt: skip
    Console(width=150).print(shown)


def smooth(scores: Sequence[Sequence[float]], width: int = 9) -> list[tuple[float, float, float]]:
    """Each score as the mean of its own and those before it, `width` in all: one draw of topics is noisy."""
    values = [score for _, _, score in scores]
    return [(t, n, float(np.mean(values[max(0, i + 1 - width) : i + 1]))) for i, (t, n, _) in enumerate(scores)]


def _first(scores: Sequence[tuple[float, float, float]], target: float) -> tuple[float, float]:
    """The first iteration and second with the score. Infinite if never."""
    return next(((n, t) for t, n, score in scores if score >= target), (math.inf, math.inf))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--ways", default=",".join(WAYS))
    running.add_argument("--seeds", type=int, default=1)
    shown = commands.add_parser("table")
    for one in (running, shown):
        one.add_argument("--iterations", type=int, default=ITERATIONS)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.ways.split(","), arguments.seeds, arguments.iterations)
    else:
        table(arguments.iterations)


if __name__ == "__main__":
    main()
