"""A server on loopback that answers as it is told: what a real search server cannot be made to do in a test."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int = 200
    body: Any = field(default_factory=dict)  # JSON; bytes are sent as they are
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    product: bool = True
    drop: bool = False  # the connection breaks instead
    hold: bool = False  # nothing comes until the server stops


@dataclass(frozen=True, slots=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Stub:
    """Answers in turn; the last answer again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers) or [Answer()]
        self.seen: list[Seen] = []
        self.stopping = threading.Event()
        self.url = ""

    @property
    def bodies(self) -> list[Any]:
        """What it was sent, as JSON."""
        return [json.loads(seen.body) for seen in self.seen]

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(*answers: Answer, certificate: Path | None = None) -> Iterator[Stub]:
    stub = Stub(*answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            stub.seen.append(Seen(self.command, self.path, headers, body))
            given = stub.next()
            if given.hold:
                stub.stopping.wait(20)
            if given.hold or given.drop:
                self.close_connection = True
                self.connection.close()
                return
            sent = given.body if isinstance(given.body, bytes) else json.dumps(given.body).encode()
            self.send_response(given.status)
            self.send_header("content-type", given.content_type)
            self.send_header("content-length", str(len(sent)))
            if given.product:
                self.send_header("x-elastic-product", "Elasticsearch")
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(sent)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: Any) -> None:  # clients hang up on a certificate that they refuse
            pass

    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    stub.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


def self_signed(folder: Path) -> tuple[Path, Path, str]:
    """Return the path of key and certificate, of the certificate alone, and its SHA-256 in hex."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    both, alone = folder / "server.pem", folder / "certificate.pem"
    plain = serialization.NoEncryption()
    both.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain) + pem)
    alone.write_bytes(pem)
    return both, alone, certificate.fingerprint(hashes.SHA256()).hex()
