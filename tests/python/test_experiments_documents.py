"""Results that are one JSON document each: that they say how they were made, and when they are out of date."""

from __future__ import annotations

import types

import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from experiments import compression_cost, documents, effect_of_f, measured_time, narrow_words, unbiased_rounding

MEASUREMENTS = (compression_cost, effect_of_f, measured_time, narrow_words, unbiased_rounding)


def test_a_document_says_how_long_it_took_and_when_it_ended(monkeypatch):
    seconds = iter((100.0, 163.24))
    monkeypatch.setattr(documents, "time", types.SimpleNamespace(perf_counter=lambda: next(seconds)))
    made = documents.Making().ended()
    assert made["seconds"] == 63.2
    assert made["finished"] and made["provenance"]["code"]


def test_a_document_is_out_of_date_if_it_says_other_settings():
    settings = {"draws": 5, "revisions": {"ncf": 2}}
    assert documents.is_current({"draws": 5, "revisions": {"ncf": 2}, "checks": []}, settings)
    assert not documents.is_current({"draws": 4, "revisions": {"ncf": 2}}, settings)
    assert not documents.is_current({"draws": 5, "revisions": {"ncf": 1}}, settings)
    assert not documents.is_current({"draws": 5}, settings), "what it does not say may be anything"


@pytest.mark.parametrize("text", ["", '{"draws": 5, "che', "[1]"])
def test_a_document_that_was_cut_short_does_not_count(tmp_path, text):
    file = tmp_path / "x.json"
    assert documents.read(file) is None
    file.write_text(text)
    assert documents.read(file) is None


@pytest.mark.parametrize("study", MEASUREMENTS, ids=lambda study: study.FILE.stem)
def test_recorded_documents_are_current(study):
    document = documents.read(study.FILE)
    assert document is not None and document["provenance"]
    assert documents.is_current(document, study.settings())


def test_the_recorded_costs_are_those_of_todays_compressors_and_workloads():
    document, settings = documents.read(compression_cost.FILE), compression_cost.settings()
    assert document is not None
    assert document["compression_ns"].keys() == settings["compressors"].keys()
    assert document["gradient_ms"].keys() == settings["revisions"].keys()
    assert list(document["native_ns"]) == settings["native"]
    sizes = [str(rows * columns) for rows, columns in settings["shapes"]]
    for costs in (document["compression_ns"], document["native_ns"]):
        assert all(list(times) == sizes for times in costs.values())


def few_gradients(name, workers, steps):
    return {step: np.random.default_rng(step).standard_normal((workers, 300)).astype(np.float32) for step in steps}


@pytest.mark.parametrize("study", [effect_of_f, narrow_words], ids=lambda study: study.FILE.stem)
def test_what_a_study_writes_is_current(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "collect", few_gradients)
    monkeypatch.setattr(narrow_words, "ELEMENTS", 300)
    monkeypatch.setattr(study, "FILE", tmp_path / "new" / "study.json")
    monkeypatch.setattr(study, "plot", lambda points, file: file.touch())
    study.main()
    document = documents.read(study.FILE)
    assert document is not None and documents.is_current(document, study.settings())
    assert study.settings().keys() < document.keys(), "it says all of its settings"
    assert document["seconds"] > 0 and document["finished"]
