"""A stand-in for the Kubernetes test image `agnhost`: its common sub-commands, for pods that are processes.

It listens on the pod's own address. Also here, as sub-commands of ours: `serve`, a small web server for images such as
nginx, and `hold`, which does what the pause image does. Imports are late: most sub-commands should start at once.
"""

# ruff: noqa: T201  # a program: printing is what it is for

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

Options = dict[str, str]


def address() -> str:
    """Where to listen: the pod's own address, if it has one."""
    return os.environ.get("CORRAL_POD_IP", "")


def parse(arguments: Sequence[str]) -> tuple[Options, list[str]]:
    """Flags as Go programs take them (`--name=value`, `--name value`, `--name`), and the rest."""
    options: Options = {}
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if not word.startswith("-"):
            rest.append(word)
            continue
        name, equals, text = word.lstrip("-").partition("=")
        if not equals:
            text = queue.pop(0) if queue and not queue[0].startswith("-") else "true"
        options[name] = text
    return options, rest


# Waiting


def pause(options: Options, rest: list[str]) -> int:
    """Wait; a signal ends it with an exit code of its own."""
    print("Paused", flush=True)
    number = signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 1 if number == signal.SIGINT else 2


def hold(options: Options, rest: list[str]) -> int:
    """Wait; a signal ends it well."""
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


def entrypoint_tester(options: Options, rest: list[str]) -> int:
    """Print the arguments and end."""
    print(sys.argv, flush=True)
    return 0


def logs_generator(options: Options, rest: list[str]) -> int:
    """Print some lines over some time."""
    import time

    total = int(options.get("log-lines-total") or options.get("t") or os.environ.get("LOGS_GENERATOR_LINES_TOTAL") or 0)
    length = options.get("run-duration") or options.get("d") or os.environ.get("LOGS_GENERATOR_DURATION") or "0s"
    seconds = _seconds(length)
    for number in range(total):
        stamp = time.strftime("%H:%M:%S")
        print(f"I {stamp} {number} GET /api/v1/namespaces/default/pods/{number} 200", flush=True)
        if total > 1:
            time.sleep(seconds / total)
    return 0


def _seconds(text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    for unit, size in units.items():
        if text.endswith(unit) and text[: -len(unit)].replace(".", "", 1).isdigit():
            return float(text[: -len(unit)]) * size
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0


# Serving


def _serve(
    port: int,
    answer: Callable[[BaseHTTPRequestHandler], tuple[int, str]],
    delay_s: float = 0.0,
    *,
    handles_signals: bool = True,
) -> int:
    """Serve HTTP until a signal; then end with 0, after `delay_s`. Without a handler the signal kills."""
    import threading
    import time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = answer(self)
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            print(f"{self.address_string()} {format % args}", flush=True)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    signals = {signal.SIGINT, signal.SIGTERM}
    if handles_signals:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    else:
        for number in signals:
            signal.signal(number, signal.SIG_DFL)
    server = Server((address(), port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"Started HTTP server on port {port}", flush=True)
    while not handles_signals:
        signal.pause()
    signal.sigwait(signals)
    time.sleep(delay_s)
    return 0


def netexec(options: Options, rest: list[str]) -> int:
    """An HTTP server that can be asked many things, and to exit."""
    import time
    from urllib.parse import parse_qs, urlparse

    began = time.time()

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        url = urlparse(request.path)
        query = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        path = url.path.rstrip("/") or "/"
        if path == "/exit":
            _exit_later(int(query.get("code") or 0), _seconds(query.get("wait") or query.get("timeout") or "0"))
            return 200, ""
        if path == "/shell":
            return 200, _shell(query.get("shellCommand") or query.get("cmd") or "")
        if path == "/echo":
            return int(query.get("code") or 200), query.get("msg", "")
        if path == "/redirect":
            return int(query.get("code") or 302), query.get("location", "")
        answers = {
            "/": f"NOW: {time.strftime('%Y-%m-%d %H:%M:%S')}",
            "/hostname": socket.gethostname(),
            "/hostName": socket.gethostname(),
            "/clientip": ":".join(map(str, request.client_address[:2])),
            "/header": request.headers.get(query.get("key", ""), ""),
            "/healthz": "ok",
            "/readyz": "ok",
            "/livez": "ok",
            "/uptime": f"{time.time() - began:.0f}s",
        }
        return (200, answers[path]) if path in answers else (404, "404 page not found\n")

    return _serve(int(options.get("http-port") or 8080), answer, _seconds(options.get("delay-shutdown") or "0"))


def _exit_later(code: int, delay_s: float) -> None:
    import threading

    # The answer goes out first.
    timer = threading.Timer(max(delay_s, 0.05), os._exit, (code,))
    timer.daemon = True
    timer.start()


def _shell(command: str) -> str:
    import json
    import subprocess

    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    result = {"output": done.stdout + done.stderr}
    if done.returncode:
        result["error"] = f"exit status {done.returncode}"
    return json.dumps(result)


def serve_hostname(options: Options, rest: list[str]) -> int:
    """Answer every request with the host name."""
    return _serve(int(options.get("port") or 9376), lambda request: (200, socket.gethostname()))


def serve(options: Options, rest: list[str]) -> int:
    """A plain web server, for images that are one."""
    page = f"Welcome! This is {socket.gethostname()}.\n"
    return _serve(int(options.get("port") or os.environ.get("PORT") or 80), lambda request: (200, page))


def web_server(options: Options, rest: list[str]) -> int:
    """The files of the working folder."""
    return _serve(
        int(options.get("port") or 80), lambda request: (200, f"{socket.gethostname()}\n"), handles_signals=False
    )


def liveness(options: Options, rest: list[str]) -> int:
    """Healthy for ten seconds, then not."""
    import time

    began = time.time()

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        age = time.time() - began
        return (500, f"error: {age}") if age > 10 else (200, "ok")

    return _serve(8080, answer, handles_signals=False)


def connect(options: Options, rest: list[str]) -> int:
    """Whether a TCP connection to host:port can be made."""
    host, _, port = rest[0].rpartition(":")
    try:
        socket.create_connection((host, int(port)), _seconds(options.get("timeout") or "5s")).close()
    except TimeoutError:
        print("TIMEOUT", file=sys.stderr)
        return 1
    except ConnectionRefusedError:
        print("REFUSED", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"OTHER: {error}", file=sys.stderr)
        return 1
    return 0


def resolve(options: Options, rest: list[str]) -> int:
    """Print the addresses of names."""
    for name in rest:
        try:
            found = sorted({entry[4][0] for entry in socket.getaddrinfo(name, None, socket.AF_INET)})
        except OSError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(*found, sep="\n")
    return 0


def help_text(options: Options, rest: list[str]) -> int:
    print("sub-commands:", ", ".join(sorted(COMMANDS)))
    return 0


COMMANDS: dict[str, Callable[[Options, list[str]], int]] = {
    "connect": connect,
    "entrypoint-tester": entrypoint_tester,
    "help": help_text,
    "hold": hold,
    "liveness": liveness,
    "logs-generator": logs_generator,
    "netexec": netexec,
    "pause": pause,
    "resolve": resolve,
    "serve": serve,
    "serve-hostname": serve_hostname,
    "test-webserver": web_server,
}


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        return help_text({}, [])
    command = COMMANDS.get(words[0])
    if command is None:
        print(f'Error: unknown command "{words[0]}" for "agnhost"', file=sys.stderr)
        return 1
    if command in (pause, hold):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    return command(*parse(words[1:]))


if __name__ == "__main__":
    sys.exit(main())
