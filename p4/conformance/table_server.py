"""Serves the tables of a chip that is no hardware to controllers in other processes.

`sde/bfrt_grpc/client.py` is the other end. It has the interface of the Python client of a chip's SDE, so the controller
is the same as for a chip, and can be killed while the chip goes on.
"""

from __future__ import annotations

import contextlib
import threading
from multiprocessing.connection import Connection, Listener

from jaxina.controller.tables import Tables
from jaxina.errors import JaxinaError

_METHODS = {"insert", "modify", "delete", "clear", "entries", "read", "next_digest"}


class TableServer:
    """Answers calls of the methods of `Tables`, from any number of connections, until the process ends.

    Args:
      tables: the chip's tables.
      path: of the socket. Whoever may write to it can do in this process what they like.
    """

    def __init__(self, tables: Tables, path: str):
        self._tables = tables
        self._listener = Listener(path, "AF_UNIX")
        threading.Thread(target=self._accept, name="table-server", daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()
            threading.Thread(target=self._answer, args=(connection,), name="table-client", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection, contextlib.suppress(EOFError, ConnectionError):  # the controller has ended, or was killed
            while True:
                method, *arguments = connection.recv()
                assert method in _METHODS
                try:
                    connection.send((getattr(self._tables, method)(*arguments), None))
                except JaxinaError as error:
                    connection.send((None, str(error)))
