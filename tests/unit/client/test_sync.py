"""The client of the command line takes in no more of a cluster's answers than any other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from corral.client import limits, sync
from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.core.errors import ConnectionFailed, LimitExceeded


class Cluster(BaseHTTPRequestHandler):
    """Answers as its path says."""

    protocol_version = "HTTP/1.1"
    sent = 0

    def do_GET(self) -> None:
        answer = {"/deep": b"[" * 100_000, "/half": b'{"a":', "/text": b"\xff\xfe", "/good": b'{"a": 1}'}.get(self.path)
        self.send_response(500 if self.path == "/error" else 200)
        if answer is not None:
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = b"x" * 65_536
        type(self).sent = 0
        try:
            while type(self).sent < 200_000_000:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                type(self).sent += len(piece)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncClient]:
    monkeypatch.setattr(limits, "LIST_BYTES", 4_000_000)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Cluster)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield SyncClient(Access(server=f"http://127.0.0.1:{server.server_address[1]}"))
    server.shutdown()
    thread.join()


def test_an_answer_without_end_is_read_up_to_a_limit(client: SyncClient) -> None:
    with pytest.raises(LimitExceeded, match="more than 4000000 bytes"):
        client.call("GET", "/endless")
    assert Cluster.sent < 50_000_000
    assert client.call("GET", "/good") == {"a": 1}


def test_an_error_without_end_is_read_up_to_a_limit(client: SyncClient) -> None:
    with pytest.raises(LimitExceeded):
        client.call("GET", "/error")
    assert Cluster.sent < 50_000_000


def test_a_line_without_end_comes_in_pieces(client: SyncClient) -> None:
    lines = client.lines("/endless")
    assert len(next(lines)) == limits.LINE_BYTES
    lines.close()  # type: ignore[attr-defined]  # it is a generator


@pytest.mark.parametrize("path", ["/deep", "/half", "/text"])
def test_what_is_no_json_is_an_error_with_a_sentence(client: SyncClient, path: str) -> None:
    with pytest.raises(ConnectionFailed, match="what it says is no JSON"):
        client.call("GET", path)


def test_a_connection_is_kept_for_the_next_call_and_closed_where_that_comes_late(
    client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.call("GET", "/good")
    kept = client._kept
    assert list(client.lines("/good")) == [b'{"a": 1}']
    assert client._kept is kept, "a stream has one of its own"
    client.call("GET", "/good")
    assert client._kept is kept
    monkeypatch.setattr(sync, "KEEP_S", -1.0)
    client.call("GET", "/good")
    assert client._kept is not kept
    assert kept is not None
    assert kept.sock is None
    client.close()


def test_a_client_that_nobody_holds_any_more_leaves_no_connection_open(client: SyncClient) -> None:
    other = SyncClient(client.access)
    other.call("GET", "/good")
    kept = other._kept
    assert kept is not None
    assert kept.sock is not None
    del other
    assert kept.sock is None
