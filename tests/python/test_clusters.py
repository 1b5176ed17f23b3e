"""The files in deploy/ for Slurm, Open MPI, Kubernetes and systemd: what they start works, manifests fit schemas."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from patience import PATIENCE

from jaxina.cli import worker_memory

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = str(DEPLOY / "sum.py")
WORKERS = 4
SUM = sum(range(WORKERS))
LAUNCHERS = ("SLURM", "OMPI", "PMIX", "PMI", "JAXINA", "JAX_", "KUBERNETES")

# Starts what follows its options as Slurm's srun would, with the variables that Slurm sets for a step.
SRUN = """
import os, subprocess, sys
command = [one for one in sys.argv[1:] if not one.startswith("--")]
def variables(rank):
    return {"SLURM_JOB_ID": os.environ["SLURM_JOB_ID"], "SLURM_STEP_NODELIST": "127.0.0.1,other[1-3]",
            "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
            "SLURM_STEP_NUM_NODES": "1"}
tasks = [subprocess.Popen(command, env={**os.environ, **variables(rank)}) for rank in range(4)]
sys.exit(max(task.wait() for task in tasks))
"""


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    folder = str(Path(sys.executable).parent)
    return {**clean, "PATH": f"{folder}:{clean['PATH']}", "JAX_PLATFORMS": "cpu", **more}


def check(ran):
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    for rank in range(WORKERS):
        assert f"process {rank} of {WORKERS}: direct sums to {SUM}" in said, said
    assert "carries 1 collective" in said


def test_slurms_file_starts_workers_that_sum(tmp_path):
    (tmp_path / "srun.py").write_text(SRUN)
    (tmp_path / "srun").write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/srun.py "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # JAX picks its coordinator's port by the job's id.
    settings = environment(SLURM_JOB_ID=str(port % 4096))
    settings["PATH"] = f"{tmp_path}:{settings['PATH']}"
    command = ["bash", str(DEPLOY / "slurm/train.sbatch"), PROGRAM]
    check(subprocess.run(command, env=settings, capture_output=True, text=True, timeout=PATIENCE))


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Debian's package openmpi-bin")
def test_mpiruns_file_starts_workers_that_sum():
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = [DEPLOY / "mpirun/train.sh", str(WORKERS), "--oversubscribe", *root, "--", PROGRAM]
    settings = environment(PYTHON=sys.executable)
    check(subprocess.run(command, env=settings, capture_output=True, text=True, timeout=PATIENCE))


@pytest.mark.parametrize("name", ["slurm/train.sbatch", "mpirun/train.sh", "kubernetes/job.yaml"])
def test_workers_have_the_memory_settings_of_jaxina_run(name):
    (settings,) = worker_memory.keeping({}).values()
    assert settings in (DEPLOY / name).read_text()


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Debian's package openmpi-bin")
@pytest.mark.parametrize("given", [{}, {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}], ids=["default", "user's"])
@pytest.mark.parametrize("keep", ["yes", "no"])
def test_mpirun_passes_the_memory_settings_on(given, keep, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, pathlib\n"
        "own = pathlib.Path(__file__).with_suffix(f'.{os.getpid()}')\n"
        "own.write_text(os.environ.get('GLIBC_TUNABLES', 'none'))\n"
    )
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = [DEPLOY / "mpirun/train.sh", "2", "--oversubscribe", *root, "--", program]
    plain = {name: value for name, value in environment(PYTHON=sys.executable).items() if name != "GLIBC_TUNABLES"}
    settings = plain | given | {"JAXINA_KEEP_MEMORY": keep}
    subprocess.run(command, env=settings, check=True, timeout=PATIENCE)
    expected = worker_memory.keeping(given) if keep == "yes" else given
    passed_on = [file.read_text() for file in tmp_path.iterdir() if file != program]
    assert passed_on == 2 * [expected.get("GLIBC_TUNABLES", "none")]


@pytest.mark.parametrize("name", ["job", "switch"])
def test_manifests_fit_kubernetes_schemas(name):
    schemas = pytest.importorskip("kubernetes_validate")
    documents = list(yaml.safe_load_all((DEPLOY / f"kubernetes/{name}.yaml").read_text()))
    for document in documents:
        schemas.validate(document, "1.30", strict=True)
    wrong = documents[-1]
    wrong["spec"]["replicaz"] = 1
    with pytest.raises(schemas.ValidationError):
        schemas.validate(wrong, "1.30", strict=True)


def test_manifests_start_commands_that_there_are():
    (switch,) = (
        document
        for document in yaml.safe_load_all((DEPLOY / "kubernetes/switch.yaml").read_text())
        if document["kind"] == "Deployment"
    )
    (container,) = switch["spec"]["template"]["spec"]["containers"]
    options = {one for one in container["args"] if one.startswith("--")}
    help_text = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", "switch", "--help"],
        env=environment(COLUMNS="200"),
        capture_output=True,
        text=True,
    ).stdout
    assert all(re.search(rf"{option}\b", help_text) for option in options)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path):
    unit = (DEPLOY / "systemd/jaxina-switch.service").read_text()
    here = tmp_path / "jaxina-switch.service"
    here.write_text(unit.replace("/usr/local/jaxina/bin/jaxina", str(Path(sys.executable).parent / "jaxina")))
    checked = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True)
    assert checked.returncode == 0 and "jaxina-switch" not in checked.stderr, checked.stderr


def test_the_container_file_copies_what_there_is():
    for line in (DEPLOY / "container/Containerfile").read_text().splitlines():
        if line.startswith("COPY deploy/"):
            assert (DEPLOY.parent / line.split()[1]).exists()
