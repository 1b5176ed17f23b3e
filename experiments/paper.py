"""Numbers that the SwitchML paper (Sapio et al., NSDI 2021) published, for comparison with ours."""

from __future__ import annotations

import dataclasses

SPEEDS = (10, 100)  # Gbit/s

# Which of the paper's models our workloads imitate.
COUSINS = {
    "clickthrough": "DeepLight",
    "ncf": "NCF",
    "vgg": "VGG19",
    "resnet": "ResNet-50",
    "lstm": "LSTM",
    "masked_lm": "BERT",
    "detector": "SSD",
    "gan": "UGATIT",
}

# Table 2's compressors, and the bytes that they send relative to float32. QSGD sends 6 or 8 bits for each element,
# Top-k a value and an index for each element that it keeps.
COMPRESSED = {"qsgd:64": 6 / 32, "qsgd:256": 8 / 32, "topk:0.01": 2 * 0.01, "topk:0.1": 2 * 0.1}


@dataclasses.dataclass(frozen=True)
class Measured:
    """A model at one speed.

    Attributes:
      batch_ms: milliseconds of a batch.
      communication: the share of the batch that is communication.
      overlap: the share of the communication that overlaps with computation.
    """

    batch_ms: float
    communication: float
    overlap: float

    @property
    def communication_ms(self) -> float:
        return self.batch_ms * self.communication

    @property
    def hidden_ms(self) -> float:
        return self.communication_ms * self.overlap


@dataclasses.dataclass(frozen=True)
class Profile:
    """A row of table 1."""

    size_mb: float
    at: dict[int, Measured]

    @property
    def elements(self) -> float:
        """How many float32 the model has."""
        return self.size_mb * 1e6 / 4


def _profile(size_mb: float, *measured: tuple[float, float, float]) -> Profile:
    return Profile(
        size_mb,
        {
            gbps: Measured(batch, communication / 100, overlap / 100)
            for gbps, (batch, communication, overlap) in zip(SPEEDS, measured, strict=True)
        },
    )


PROFILES = {
    "DeepLight": _profile(2319, (2101, 97, 2), (258, 79, 20)),
    "LSTM": _profile(1627, (1534, 94, 10), (312, 46, 56)),
    "BERT": _profile(1274, (1677, 67, 3), (668, 17, 35)),
    "VGG19": _profile(548, (661, 73, 67), (499, 10, 99)),
    "UGATIT": _profile(511, (1612, 28, 84), (1212, 4, 99)),
    "NCF": _profile(121, (149, 72, 4), (46, 23, 27)),
    "SSD": _profile(98, (293, 26, 99), (293, 3, 99)),
    "ResNet-50": _profile(87, (299, 29, 67), (270, 3, 94)),
}


def _speedups(**rows: tuple[float, ...]) -> dict[str, dict[str, float]]:
    ways = ("INA", *COMPRESSED)
    return {model.replace("_", "-"): dict(zip(ways, values, strict=True)) for model, values in rows.items()}


# Table 2: speed-up of a batch over ring all-reduce.
SPEEDUPS = {
    10: _speedups(
        DeepLight=(1.80, 1.27, 0.97, 9.24, 1.05),
        LSTM=(1.77, 1.27, 0.97, 7.49, 1.05),
        NCF=(1.54, 1.22, 0.96, 4.07, 1.05),
        BERT=(1.54, 1.20, 0.98, 3.45, 1.04),
        VGG19=(1.60, 1.22, 0.97, 2.13, 1.04),
        UGATIT=(1.22, 1.12, 0.99, 1.58, 1.02),
        ResNet_50=(1.05, 1.07, 0.95, 1.15, 1.02),
        SSD=(1.01, 1.00, 1.00, 1.01, 1.00),
    ),
    100: _speedups(
        DeepLight=(1.67, 0.93, 0.78, 2.96, 0.47),
        LSTM=(1.20, 0.98, 0.84, 1.37, 0.54),
        NCF=(1.22, 1.00, 0.85, 1.22, 0.65),
        BERT=(1.14, 0.98, 0.92, 1.27, 0.74),
    ),
}

# Table 4, by the name of our workload: AUC, perplexity, hit rate, F1, and top-1 accuracy twice. The paper mentions no
# error feedback, so its Top-k stands under our name for Top-k without it.
TABLE4: dict[str, dict[str, str]] = {
    "clickthrough": {"none": "0.9539", "topk:ratio=0.1-ef": "0.9451", "topk-ef": "0.9427"},
    "lstm": {"none": "32.74", "topk:ratio=0.1-ef": "86.26", "topk-ef": "82.55"},
    "ncf": {"none": "0.9586", "topk:ratio=0.1-ef": "0.9369", "topk-ef": "diverges"},
    "masked_lm": {"none": "91.60", "topk:ratio=0.1-ef": "91.47", "topk-ef": "91.52"},
    "vgg": {"none": "68.12", "topk:ratio=0.1-ef": "64.85", "topk-ef": "57.70"},
    "resnet": {"none": "74.34", "topk:ratio=0.1-ef": "74.59", "topk-ef": "72.63"},
}
