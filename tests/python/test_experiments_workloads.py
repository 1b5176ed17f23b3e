"""Scores and losses of workloads, on made-up data. No test needs the data sets."""

from __future__ import annotations

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from flax import nnx

from examples.gpt.model import Size
from experiments import pretrained, workloads
from experiments.data import movielens, shakespeare
from experiments.data.splits import Splits
from experiments.workloads import decoder, detector, gan, masked_lm
from experiments.workloads.base import Lengths, spread
from experiments.workloads.clickthrough import area_under_curve


@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_says_what_it_is_a_cousin_of(name):
    kind = workloads.kind(name)
    assert len(kind.cousin_of) > 10 and len(kind.differs) > 40 and kind.metric


def test_area_under_curve():
    late = np.array([True, False, True, False])
    assert area_under_curve(np.array([4.0, 1, 3, 2]), late) == 1.0
    assert area_under_curve(np.array([1.0, 4, 2, 3]), late) == 0.0
    assert area_under_curve(np.array([1.0, 1, 1, 1]), late) == 0.5
    assert area_under_curve(np.array([2.0, 2, 3, 1]), late) == 0.875


def answers_for(cells: np.ndarray, sure: float) -> np.ndarray:
    """Returns the answers of a detector that finds just these cells."""
    answers = np.full((*cells.shape[:3], 13), -sure, np.float32)
    answers[..., 0] = np.where(cells[..., 0] > 0, sure, -sure)
    answers[..., 1:3] = cells[..., 1:3]
    np.put_along_axis(answers[..., 3:], cells[..., 3:].astype(int), sure, axis=-1)
    return answers


def one_digit_each(images: int = 20) -> np.ndarray:
    cells = np.zeros((images, 6, 6, 4), np.float32)
    cells[:, 2, 3] = [(1, 0.5, 0.25, number % 10) for number in range(images)]
    return cells


def test_precision_of_a_perfect_and_of_a_blind_detector():
    cells = one_digit_each()
    assert detector.mean_average_precision(answers_for(cells, 8.0), cells) == pytest.approx(1.0)
    elsewhere = np.roll(cells, 3, axis=1)
    assert detector.mean_average_precision(answers_for(elsewhere, 8.0), cells) == 0.0


def test_precision_needs_the_digit_and_the_place():
    cells = one_digit_each()
    wrong = cells.copy()
    # Each digit occurs twice. One of the two is taken for the next digit.
    wrong[:10, 2, 3, 3] = (wrong[:10, 2, 3, 3] + 1) % 10
    answers = answers_for(wrong, 8.0)
    # Wrong answers are less sure than right ones, so half of the recall comes before any false alarm.
    answers[:10, ..., 3:] /= 2
    for number in range(10):
        answers[number, 2, 3, 3 + number] = -50  # the other half never comes
    assert detector.mean_average_precision(answers, cells) == pytest.approx(0.5)
    moved = cells.copy()
    moved[..., 1] += 10 / 8  # moved by 10 of 28 pixels: the overlap is 18 / 38, below one half
    assert detector.mean_average_precision(answers_for(moved, 8.0), cells) == 0.0
    moved[..., 1] -= 1 / 8  # moved by 9 pixels: the overlap is 19 / 37, above one half
    assert detector.mean_average_precision(answers_for(moved, 8.0), cells) == pytest.approx(1.0)


def test_precision_by_hand_with_a_false_alarm_before_the_second_box():
    sure = np.full((2, 6, 6), -9.0)
    wanted = np.zeros((2, 6, 6), bool)
    wanted[0, 1, 1] = wanted[1, 1, 1] = True
    sure[0, 1, 1], sure[0, 5, 5], sure[1, 1, 1] = -0.1, -0.2, -0.3
    corner = 8.0 * np.stack(np.meshgrid(np.arange(6), np.arange(6), indexing="ij"), axis=-1)
    places = np.broadcast_to(corner, (2, 6, 6, 2))
    assert detector._average_precision(sure, places, places, wanted) == pytest.approx((1 + 2 / 3) / 2)


class TinyGAN(gan.GAN):
    """The GAN without its data."""

    def __init__(self) -> None:
        self.large = False


def test_players_of_the_gan_do_not_learn_from_each_others_losses():
    workload = TinyGAN()
    graph = nnx.graphdef(nnx.eval_shape(lambda: workload.network(nnx.Rngs(0))))
    params = jax.jit(lambda: nnx.state(workload.network(nnx.Rngs(0))))()
    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.uniform(size=(2, 28, 28, 1)).astype(np.float32))
    batch = {"images": images, "coarse": gan.coarse(images)}

    def judging(p):
        pair = nnx.merge(graph, p)
        picture = jax.lax.stop_gradient(pair.generator(batch["coarse"]))
        real, false = pair.judge(batch["coarse"], images), pair.judge(batch["coarse"], picture)
        return jax.nn.softplus(-real).mean() + jax.nn.softplus(false).mean()

    quickly_compiled = {"compiler_options": {"xla_backend_optimization_level": 0}}
    whole = jax.jit(jax.grad(lambda p: workload.loss(nnx.merge(graph, p), batch)), **quickly_compiled)(params)
    alone = jax.jit(jax.grad(judging), **quickly_compiled)(params)
    for ours, theirs in zip(jax.tree.leaves(whole["judge"]), jax.tree.leaves(alone["judge"]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)
    assert any(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(whole["generator"]))


def test_the_text_is_shakespeares_alone(monkeypatch):
    """The package has Milton's works, too, in a folder that comes before."""
    works = {"miltondata/texts/comus_gut.txt": "milton ", "shksprdata/texts/hamlet_gut.txt": "hamlet "}
    package = types.SimpleNamespace(
        members=lambda ending: sorted(works), read=lambda member: (works[member] * 40_000).encode()
    )
    monkeypatch.setattr(shakespeare, "SHAKESPEARE", package)
    shakespeare.parts.cache_clear()
    text = "".join(piece for side in shakespeare.parts() for piece in side)
    shakespeare.parts.cache_clear()
    assert "hamlet" in text and "milton" not in text


def test_few_held_out_rows_are_from_the_whole_split():
    rows = {"tokens": np.arange(1000)}
    assert spread(rows, 4)["tokens"].tolist() == [0, 250, 500, 750]
    assert spread(rows, 2000)["tokens"].tolist() == list(range(1000))


@pytest.fixture
def collaborative(monkeypatch):
    """The workload ncf with one user, who is to be trained with film 0 of three, and tested with film 1."""
    ratings = movielens.Ratings(
        users=1,
        items=3,
        pairs=np.zeros((1000, 2), np.int32),
        known=np.array([[True, False, False]]),
        validation=np.array([[2, 1]], np.int32),
        test=np.array([[1, 2]], np.int32),
    )
    monkeypatch.setattr(movielens, "load", lambda: ratings)
    return workloads.get("ncf")


def test_who_trains_does_not_know_which_films_are_held_out(collaborative):
    batch = next(collaborative.batches(0))
    assert set(batch["items"][batch["liked"] == 1]) == {0}
    assert set(batch["items"][batch["liked"] == 0]) == {1, 2}


def test_not_a_number_is_no_hit(collaborative):
    assert collaborative.score([np.full((5, 100), np.nan)]) == 0.0
    assert collaborative.score([np.concatenate([np.ones((5, 1)), np.zeros((5, 99))], axis=1)]) == 1.0


def test_coarse_pictures_and_larger_ones():
    pictures = jnp.arange(2 * 7 * 7, dtype=jnp.float32).reshape(2, 7, 7, 1)
    np.testing.assert_allclose(gan.coarse(gan.enlarged(pictures)), pictures, rtol=1e-6)
    squares = gan.doubled(jnp.arange(8, dtype=jnp.float32).reshape(1, 1, 2, 4))
    np.testing.assert_array_equal(squares[0, :, :, 0], [[0, 1, 4, 5], [2, 3, 6, 7]])


def test_adapters_begin_as_the_base_and_only_they_are_trained(monkeypatch, tmp_path):
    """The decoder and its LoRA on made-up text, in a tiny size. The base comes back from its file as it was trained."""
    text = decoder.shakespeare.Characters(Splits(*(np.arange(34 * 17, dtype=np.int32) % 7 for _ in range(3))), 7)
    monkeypatch.setattr(decoder.shakespeare, "characters", lambda spelling: text)
    monkeypatch.setattr(
        decoder, "size_of", lambda alphabet, large: Size(alphabet, length=16, width=8, depth=1, heads=2)
    )
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    monkeypatch.setattr(decoder.Shakespeare, "lengths", Lengths(2, 2))
    whole, adapted = decoder.Shakespeare(), decoder.LoRA()
    base = pretrained.parameters(whole)
    assert list(tmp_path.iterdir()) == [pretrained.file_of(decoder.Shakespeare, "small")]
    graph = nnx.graphdef(nnx.eval_shape(lambda: whole.network(nnx.Rngs(0))))
    batch = next(whole.batches(0))

    def everything(key):
        adapters = adapted.network(nnx.Rngs(key))
        changed = adapted.network(nnx.Rngs(key))
        changed.layers[0].value.up[...] = jnp.ones((decoder.RANK, 8))
        values = changed.added_to(base)["blocks"][0]["value"]["kernel"]
        return {
            "whole": whole.loss(nnx.merge(graph, nnx.State(base)), batch),
            "adapted": adapted.loss(adapters, batch),
            "changed": adapted.loss(changed, batch),
            "added": values - base["blocks"][0]["value"]["kernel"],
            "product": changed.layers[0].value.product(),
            "gradient": nnx.state(nnx.grad(lambda network: adapted.loss(network, batch))(adapters)),
        }

    found = jax.jit(everything, compiler_options={"xla_backend_optimization_level": 0})(jax.random.key(1))
    assert float(found["adapted"]) == pytest.approx(float(found["whole"]), rel=1e-6)
    assert abs(float(found["changed"] - found["whole"])) > 1e-4
    np.testing.assert_allclose(found["added"], found["product"], rtol=1e-4, atol=1e-6)
    shapes = [leaf.shape for leaf in jax.tree.leaves(found["gradient"])]
    assert sorted(shapes) == 2 * [(8, decoder.RANK)] + 2 * [(decoder.RANK, 8)], (
        "each matrix is a leaf, as in a deployment"
    )
    for adapter in ("query", "value"):
        assert np.abs(found["gradient"]["layers"][0][adapter]["up"][...]).max() > 0


def test_runs_on_different_bases_are_told_apart(monkeypatch):
    text = decoder.shakespeare.Characters(Splits(*(np.arange(34 * 17, dtype=np.int32) % 7 for _ in range(3))), 7)
    monkeypatch.setattr(decoder.shakespeare, "characters", lambda spelling: text)
    weights = np.arange(6, dtype=np.float32)
    bases = []
    for kernel in (
        weights.reshape(2, 3),
        weights.reshape(3, 2),
        np.nextafter(weights.reshape(2, 3), 9),
        weights.reshape(2, 3),
    ):
        monkeypatch.setattr(pretrained, "parameters", lambda _, kernel=kernel: {"blocks": {0: {"kernel": kernel}}})
        bases.append(decoder.LoRA().base)
    assert len(set(bases[:3])) == 3 and bases[3] == bases[0]


@pytest.mark.parametrize("split", ["validation", "test"])
def test_enough_masked_characters_are_scored_for_the_margin(monkeypatch, split):
    """The margin is half a point. Each masked character is right or wrong, so 4,700 of them could not show it."""
    text = shakespeare.Characters(Splits(*(np.arange(64 * 5000, dtype=np.int32) % 7 for _ in range(3))), 7)
    monkeypatch.setattr(masked_lm.shakespeare, "characters", lambda: text)
    batches = workloads.get("masked_lm").held_out(split)
    assert sum(batch["hidden"].sum() for batch in batches) > 35_000
