"""What `make gpu-check` does with the outcomes of its steps, on a machine whose GPU and programs are stand-ins."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from patience import PATIENCE

import jaxina

ROOT = Path(__file__).parents[2]
BROUGHT = ("build/gpu-wheels/kernels_on_gpu", "build/gpu-wheels/kernel_bench")
MPS_CONTROL = """
[ "$1" != -d ] || exit 0
read -r command
echo "$command $CUDA_MPS_PIPE_DIRECTORY" >>"$NOTES"
[ "$command" != get_server_list ] || echo $SERVERS"""
SAID = "told after 0.1 s: gone; median step 5 ms; 3.0 ms a step"  # what the table shows of any step


class Machine:
    """A checkout with the script, where all that it runs are small programs that note how they were called."""

    def __init__(self, folder: Path):
        self.folder, self.notes = folder, folder / "notes"
        (folder / "scripts").mkdir()
        for name in ("gpu_check.sh", "gpu_sources.sh", "chosen_parts.sh"):
            shutil.copy(ROOT / "scripts" / name, folder / "scripts")
        for name in ("bin/python3", "bin/nvidia-smi", "bin/compute-sanitizer", *BROUGHT, "build/gpu-venv/bin/python"):
            self.program(name)
        self.program("bin/nvidia-cuda-mps-control", MPS_CONTROL)
        self.program("build/gpu-venv/bin/jaxina", f"echo '{SAID}'")

    def program(self, name: str, body: str = "") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "#!/bin/bash\n"
            f'echo "{path.name} $* by ${{JAX_PLATFORMS-any}} on ${{CUDA_VISIBLE_DEVICES-all}}" >>"$NOTES"\n{body}\n',
            encoding="utf-8",
        )
        path.chmod(0o755)

    def run(self, *parts: str, stdout: Any = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "JAX_PLATFORMS"))}
        known |= {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "NOTES": str(self.notes), "SERVERS": "4711"}
        return subprocess.run(
            ["bash", "scripts/gpu_check.sh", *parts],
            cwd=self.folder,
            env=known | environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )

    def check(self, *parts: str, **environment: str) -> tuple[int, dict[str, str]]:
        """Returns the exit code, and the result of each step in the table."""
        finished = self.run(*parts, **environment)
        header, *table = finished.stdout.splitlines()
        assert header.startswith("step  "), finished.stdout + finished.stderr
        rows = [
            re.match(r"(\S+) +(.*?) +\d+ s  ", line) for line in table if not line.startswith(("    | ", "failed: "))
        ]
        assert rows and all(rows), finished.stdout + finished.stderr
        return finished.returncode, {row[1]: row[2] for row in rows if row}

    def called(self, *words: str) -> list[str]:
        """Returns the GPUs of each call with these words, as CUDA_VISIBLE_DEVICES had them."""
        notes = self.notes.read_text(encoding="utf-8").splitlines()
        return [note.rpartition(" on ")[2] for note in notes if all(word in note for word in words)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_every_step_that_succeeds_is_ok(machine: Machine):
    code, results = machine.check("jobs", "times")
    assert set(results.values()) == {"ok"} and len(results) == 17
    assert code == 0


def test_a_python_without_jax_is_named_before_any_step(machine: Machine):
    machine.program("bin/python3", "echo 'ModuleNotFoundError: No module named jax' >&2; exit 1")
    finished = machine.run("kernels")
    assert finished.returncode == 2
    assert "python3 cannot import JAX (ModuleNotFoundError: No module named jax)" in finished.stderr
    assert finished.stdout == ""


def test_a_step_has_its_row_before_the_next_one_starts(machine: Machine):
    machine.program("bin/compute-sanitizer", 'grep -c "^tests-on-gpu  *ok " "$OUTPUT"')
    with (machine.folder / "output").open("w", encoding="utf-8") as output:
        machine.run("kernels", stdout=output, OUTPUT=str(machine.folder / "output"))
    log = machine.folder / "out/gpu-check/compute-sanitizer.log"
    assert log.read_text(encoding="utf-8") == "1\n"


def test_failed_steps_are_named_last_and_show_their_logs(machine: Machine):
    machine.program("bin/compute-sanitizer", "echo one; echo two; exit 9")
    finished = machine.run("kernels")
    row, *log, last = finished.stdout.splitlines()[2:]
    assert re.match(r"compute-sanitizer +FAILED \(9\) .* two$", row)
    assert log == ["    | one", "    | two"]
    assert last == "failed: compute-sanitizer"


@pytest.mark.parametrize("part", ["install", "kernels", "jobs", "times"])
def test_no_part_takes_ten_minutes_even_if_every_step_hangs(machine: Machine, part: str):
    machine.program("bin/timeout", "exit 124")
    machine.run(part)
    notes = machine.notes.read_text(encoding="utf-8")
    limits = [int(seconds) for seconds in re.findall(r"^timeout (?:--kill-after=10 )?(\d+) ", notes, re.MULTILINE)]
    assert len(limits) >= 2 and sum(limits) < 600


def test_results_on_the_gpu_are_compared_with_those_of_the_cpu(machine: Machine):
    machine.check("jobs")
    notes = machine.notes.read_text(encoding="utf-8").splitlines()
    written, compared = (note for note in notes if "same_as_cpu.py" in note)
    results = f"{machine.folder}/out/gpu-check/same-as-cpu.out.npz"
    assert written.endswith(f"/same_as_cpu.py --write {results} by cpu on 0")
    assert compared.endswith(f"/same_as_cpu.py --compare {results} by any on 0") and "as_other_host.py" in compared


def test_what_the_kernels_check_skips_is_not_ok(machine: Machine):
    machine.program("build/gpu-wheels/kernels_on_gpu", "echo '9 passed, 0 failed, 1 skipped'; exit 3")
    code, results = machine.check("kernels")
    assert results == {"tests-on-gpu": "not possible here", "compute-sanitizer": "ok"}
    assert code == 1


def test_a_run_that_fails_after_its_last_line_is_a_step_that_failed(machine: Machine):
    machine.program("build/gpu-venv/bin/jaxina", f"echo '{SAID}'; [[ $* != *train.py* ]]")
    code, results = machine.check("jobs", "times")
    failed = {name for name, result in results.items() if result == "FAILED (1)"}
    assert failed == {"mnist", "mnist-jaxina", "mnist-nccl", "decoder-jaxina", "decoder-nccl"}
    assert code == 1


def test_the_killed_worker_may_fail_its_run_but_not_be_noticed_too_late(machine: Machine):
    machine.program("build/gpu-venv/bin/jaxina", f"echo '{SAID}'; exit 137")
    assert machine.check("jobs")[1]["lost-worker"] == "ok"
    machine.program("build/gpu-venv/bin/jaxina", "echo 'told too late, after 45.00 s: gone'; exit 137")
    assert machine.check("jobs")[1]["lost-worker"] == "FAILED (1)"


def test_one_gpu_cannot_sum_and_that_is_no_failure(machine: Machine):
    machine.program("build/gpu-venv/bin/python", "echo 'this process has one GPU'; exit 4")
    code, results = machine.check("jobs")
    assert results.pop("bits-all-gpus") == "not run"
    assert set(results.values()) == {"ok"}
    assert code == 0


@pytest.mark.parametrize("given, one, every", [({}, "0", "all"), ({"CUDA_VISIBLE_DEVICES": "2,3"}, "2", "2,3")])
def test_steps_use_the_gpus_that_the_user_chose(machine: Machine, given: dict[str, str], one: str, every: str):
    machine.check("jobs", "times", **given)
    assert machine.called("--several") == [every]
    assert set(machine.called("jaxina run -n 2", "--only-bits")) == {one}
    assert set(machine.called("train.py")) == {one}
    # Clients of MPS count the GPUs that its daemon has.
    assert machine.called("mps-control -d") == [one]
    assert sorted(machine.called("--only-time")) == sorted([one, "0"])


def test_times_with_mps_need_a_server_of_mps(machine: Machine):
    code, results = machine.check("times", SERVERS="")
    assert results.pop("psum-mps") == "FAILED (1)"
    assert set(results.values()) == {"ok"}
    assert code == 1


def test_no_mps_daemon_outlives_its_step(machine: Machine):
    # It ends all processes of the step, as `timeout` does.
    machine.program("build/gpu-venv/bin/jaxina", "[ -z ${CUDA_MPS_PIPE_DIRECTORY-} ] || kill -TERM 0")
    assert machine.check("times")[1]["psum-mps"] == "FAILED (143)"
    notes = machine.notes.read_text(encoding="utf-8").splitlines()
    assert notes.count(f"quit {machine.folder}/out/gpu-check/mps") == 1


def test_nccl_is_asked_with_the_plug_in_that_was_brought(machine: Machine):
    machine.check("times")
    assert machine.called("spike.py", f"--plugin {machine.folder}/build/gpu-wheels/libnccl-net-jaxina.so")


def module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # for dataclasses
    spec.loader.exec_module(made)
    return made


def test_the_loss_of_a_worker_is_told_in_time_or_too_late():
    lost_worker = module("tests/gpu/lost_worker_on_gpu.py")
    error = jaxina.errors.WorkerLostError("gone")
    assert lost_worker.told(9.0, error) == f"told after 9.00 s: {error}"
    assert lost_worker.told(45.0, error) == f"told too late, after 45.00 s: {error}"


@pytest.mark.parametrize("backend, outcome", [("cpu", "JAX sees no GPU, but "), ("gpu", 4)])
def test_psums_of_several_gpus_need_a_gpu_and_are_not_run_on_one(
    monkeypatch: pytest.MonkeyPatch, backend: str, outcome: object
):
    psum_on_gpu = module("tests/gpu/psum_on_gpu.py")
    monkeypatch.setattr(sys, "argv", ["psum_on_gpu.py", "--several", "--only-bits"])
    monkeypatch.setattr(jaxina, "init", lambda **_: nullcontext())
    monkeypatch.setattr(jax, "local_device_count", lambda: 1)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    with pytest.raises(SystemExit) as ended:
        psum_on_gpu.main()
    assert str(ended.value.code).startswith(str(outcome))


@pytest.mark.parametrize(
    "aggregator, gpus, staged, refused",
    [("embedded", 1, 0, False), ("embedded", 1, 5, True), ("embedded", 2, 5, False), ("udp", 1, 5, False)],
)
def test_times_with_a_hidden_copy_are_refused(
    monkeypatch: pytest.MonkeyPatch, aggregator: str, gpus: int, staged: int, refused: bool
):
    psum_on_gpu = module("tests/gpu/psum_on_gpu.py")
    monkeypatch.setattr(jax, "local_device_count", lambda: gpus)
    counted = {"staged_words": staged, "elements": 10}
    job = SimpleNamespace(aggregator=aggregator, statistics=lambda: counted)
    with pytest.raises(AssertionError, match="5 words were copied") if refused else nullcontext():
        assert psum_on_gpu.staged_share(job) == staged / 10


@pytest.mark.parametrize(
    "name, change, said",
    [
        ("int8", 0.0, None),
        ("int8", 2**-23, "int8: 1 of 2 differ"),
        ("efsignsgd", 5e-6, None),
        ("efsignsgd", 2e-5, "efsignsgd: off by 2.0e-05 of the largest, more than 1e-05"),
        ("efsignsgd", np.nan, "efsignsgd: off by nan"),
        ("int4", 0.0, "int4, int8: on one side only"),
    ],
)
def test_results_that_are_not_those_of_the_cpu_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, change: float, said: str | None
):
    monkeypatch.syspath_prepend(ROOT / "tests/gpu")
    same_as_cpu = module("tests/gpu/same_as_cpu.py")
    monkeypatch.setattr(jaxina, "init", lambda **_: nullcontext())
    monkeypatch.setattr(same_as_cpu, "sums_of_64_bits", lambda mesh: {})

    def run(backend: str, how: str, results: dict[str, np.ndarray]) -> None:
        monkeypatch.setattr(jax, "default_backend", lambda: backend)
        monkeypatch.setattr(same_as_cpu, "compressed_means", lambda mesh: results)
        monkeypatch.setattr(sys, "argv", ["same_as_cpu.py", how, str(tmp_path / "results.npz")])
        same_as_cpu.main()

    run("cpu", "--write", {"int8" if name == "int4" else name: np.float32([1, 0.5])})
    with pytest.raises(SystemExit, match=said) if said else nullcontext():
        run("gpu", "--compare", {name: np.float32([1 + change, 0.5])})
    with pytest.raises(SystemExit, match="this is to run on a GPU"):
        run("cpu", "--compare", {})


@pytest.mark.parametrize("said, status", [("", 1), ("NCCL INFO", 1), ("Loaded collnet plugin", 0)])
def test_the_question_to_nccl_fails_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, status: int
):
    spike = module("benchmarks/cuda/collnet/spike.py")
    begin: Callable[..., object] = lambda variant, _, logs: variant.file(logs, 0, "nccl").write_text(said)  # noqa: E731
    monkeypatch.setattr(spike, "start", begin)
    monkeypatch.setattr(spike, "take_turn", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["spike.py", "--plugin", str(tmp_path / "plug-in.so"), "--logs", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        spike.main()
    (tmp_path / "plug-in.so").touch()
    assert spike.main() == status


def test_a_plug_in_that_was_called_was_loaded_whatever_nccl_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    spike = module("benchmarks/cuda/collnet/spike.py")
    variant = spike.variants(with_jax=False)[0]
    variant.file(tmp_path, 0, "nccl").write_text("NCCL INFO in other words")
    called = dict.fromkeys(spike.NAMES_OF_COUNTERS, 0) | {"all_reduces": 6}
    variant.file(tmp_path, 0, "counters").write_bytes(struct.pack(f"{len(called)}Q", *called.values()))
    for rank in range(2):
        report = {"sums": [{"bytes": 1, "right": True}] * 3, "finished": True}
        variant.file(tmp_path, rank, "json").write_text(json.dumps(report))
    assert spike.print_verdict([variant], tmp_path)
    assert "VERDICT: yes" in capsys.readouterr().out
