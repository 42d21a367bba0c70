"""Commands as forks of a process that has the package loaded, instead of new interpreters.

Most of what a small command takes is starting Python and importing the package. A fork is a process
of its own as well, with its own input and output, that begins where the imports end.

    python tests/forking.py SOCKET     a server; `client(SOCKET)` is a program that runs commands there
"""

from __future__ import annotations

import array
import contextlib
import importlib
import json
import os
import pkgutil
import socket
import sys
import traceback
from collections.abc import Callable, Sequence

PARTS = ("cli", "compiling", "runtime", "report", "targets")  # of the package: the others follow
REQUEST = 1 << 20  # bytes, at most

CLIENT = """#!/bin/sh
exec "{python}" -I -S -c '
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect("{place}")
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
server.sendmsg([request], streams)
sys.exit(int(server.recv(9) or b"134"))
' "$@"
"""


def client(place: str) -> str:
    """The text of a program that runs its arguments at a server."""
    return CLIENT.format(python=sys.executable, place=place)


def run(main: Callable[[list[str]], object], words: Sequence[str], streams: Sequence[int]) -> int:
    """In a fork: a Python program on three open files; its exit code. The first word is its name."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1)  # line by line, as Python has it
    sys.argv = list(words)
    code: object = 0
    try:
        main(list(words[1:]))
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def load(package: str) -> None:
    """Import what commands import when they are called."""
    for part in PARTS:
        root = importlib.import_module(f"{package}.{part}")
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}.", lambda _: None):
            with contextlib.suppress(ImportError):  # of what is not installed
                importlib.import_module(found.name)


def serve(place: str) -> None:
    """Run what clients ask for, until standard input ends."""
    from tilewright.cli import main

    load("tilewright")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(place)
    server.listen()
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            os._exit(_answer(main, connection))
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _answer(main: Callable[[list[str]], object], connection: socket.socket) -> int:
    files = array.array("i")
    request, rights, _, _ = connection.recvmsg(REQUEST, socket.CMSG_SPACE(3 * files.itemsize))
    files.frombytes(rights[0][2])
    words, folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [""]  # as `python -m` has it
    code = run(main, ["tilewright", *words], files)
    connection.send(b"%d" % code)
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
