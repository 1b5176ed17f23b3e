"""Command lines that cannot work: one line that names the option, exit code 2 or 1, and never a traceback."""

from __future__ import annotations

import sys

import pytest

from jaxina.cli.app import main


@pytest.fixture
def jaxina(monkeypatch, capfd):
    """Runs a command in this process, where it takes no second. Returns its exit code and what it wrote on stderr."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["jaxina", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capfd.readouterr().err

    return run


@pytest.mark.parametrize("token", ["", "short", "two words of 24 letters."])
@pytest.mark.parametrize("command", [["keeper", "-n", 1], ["switch", "--bind", "127.0.0.1:0"], ["fabric", "status"]])
def test_a_file_without_a_token_is_not_taken_for_no_token(jaxina, tmp_path, command, token):
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    code, err = jaxina(*command, "--token-file", file)
    assert code == 2 and f"--token-file {file}: token is not allowed: give 16 to 256 printable" in err, err
