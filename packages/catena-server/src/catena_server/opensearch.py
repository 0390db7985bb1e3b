"""OpenSearch by its official client (extra `opensearch`), sync and async: sends the calls of `catena_server`.

The client's own node pool, TLS and authentication are used; what may be tried again is tried again by our driver. The
client does not tell the headers of a refusal, so that a Retry-After is not known, and the driver's own waits hold.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from catena.model import ParameterError, ServerError
from catena_server.calls import Call
from catena_server.client_transport import (
    OTHER_NODES,
    ClientTransport,
    Server,
    about_tls,
    bracketed,
    connection,
    encoded,
    parameters,
)

if TYPE_CHECKING:
    from opensearchpy import AsyncOpenSearch, OpenSearch


class OpenSearchTransport(ClientTransport):
    """Sends calls through clients of OpenSearch; make one with `connect`, or give clients that you have.

    A sync client alone answers asyncio in threads; beside an async client alone, a sync one is
    made with its settings.

    Args:
        client: opensearch-py from 2.8 to 3.
        aclient: its async twin.

    Raises:
        MissingExtraError: the client is not installed.
        ParameterError: neither client is given, or no sync one can be made: requests are signed by a function.
    """

    _driver = ("opensearchpy", "opensearch-py", "opensearch", "OpenSearch")

    def __init__(self, client: OpenSearch | None = None, aclient: AsyncOpenSearch | None = None) -> None:
        given, kind = self._given(client, aclient)
        common = given.transport.kwargs
        hosts: list[dict[str, Any]] = [{**common, **host} for host in given.transport.hosts]
        server = Server.of("opensearch", map(_address, hosts), (sent for host in hosts for sent in _sent(host)))
        self._default_seconds = float(common.get("timeout") or 10)  # the client's own
        twin = None
        if client is None:
            if callable(common.get("http_auth")):
                raise ParameterError("client", None, "an OpenSearch beside an async client whose requests are signed")
            settings = {name: value for name, value in common.items() if name != "loop"}
            twin = client = kind(given.transport.hosts, **settings)
        super().__init__(server, client, aclient, owned=() if twin is None else (twin,))

    @classmethod
    def connect(
        cls,
        url: str | Iterable[str],
        *,
        basic_auth: tuple[str, str] | None = None,
        bearer_auth: str | None = None,
        ca_certs: str | None = None,
        verify_certs: bool = True,
        ssl_assert_fingerprint: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Self:
        """Return a transport with clients of its own, which `close` and `aclose` close.

        Args:
            url: of one node, or of several of one cluster; requests go to them in turn. A name and password in it
                are taken as `basic_auth`.
            basic_auth: name and password.
            bearer_auth: a token.
            ca_certs: path of the certificates that are trusted, instead of certifi's.
            verify_certs: False believes any certificate.
            ssl_assert_fingerprint: SHA-256 of the server's certificate, in hex; asyncio is then answered in threads,
                as the async client cannot check it.
            client_cert: path of a certificate of our own.
            client_key: path of its key.
            headers: sent with each request.
            timeout: seconds to wait for an answer, where a call does not say.

        Raises:
            MissingExtraError: the client is not installed.
            ParameterError: an address or a setting cannot be used.
        """
        kind, akind = cls._clients()
        files = {"ca_certs": ca_certs, "client_cert": client_cert, "client_key": client_key}
        given = {"basic_auth": basic_auth, "bearer_auth": bearer_auth}
        urls, credentials, trust = connection(url, given, files, timeout=timeout, verify=verify_certs)
        token = {"authorization": f"Bearer {bearer_auth}"} if bearer_auth else {}
        settings: dict[str, Any] = {
            "hosts": [_host_of(each) for each in urls],
            "http_auth": credentials["basic_auth"],
            "headers": {**(headers or {}), **token} or None,
            "timeout": timeout,
            "max_retries": min(OTHER_NODES, len(urls) - 1),
            "retry_on_status": (),
        }
        settings = {name: value for name, value in settings.items() if value is not None}
        tls: dict[str, Any] = {name: path for name, path in files.items() if path is not None}
        if ssl_assert_fingerprint is not None:
            tls["ssl_assert_fingerprint"] = ssl_assert_fingerprint
        if not verify_certs:
            tls |= {"verify_certs": False, "ssl_assert_hostname": False, "ssl_show_warn": False}
        apart = {**settings, "ssl_context": trust} if trust else settings  # it would read certificates
        make_async = None if ssl_assert_fingerprint is not None else lambda own: akind(**apart)
        return cls._own(lambda: kind(**settings, **(tls if trust else {})), make_async)

    async def _hang_up(self, client: Any) -> None:
        await client.close()
        for each in client.transport.seed_connections:  # it forgets those that could not be reached
            await each.close()

    def _arguments(self, call: Call) -> dict[str, Any]:
        content, body = encoded(call)
        params = parameters(call)
        seconds = call.seconds
        if seconds is None and "timeout" in params:  # the client would take the server's limit for its own
            seconds = self._default_seconds
        return {
            "method": call.method,
            "url": call.path,
            "params": params,
            "body": body,
            "timeout": seconds,
            "headers": {"accept": "application/json", "content-type": content},
        }

    def _request(self, client: Any, call: Call, arguments: dict[str, Any]) -> Any:
        return client.transport.perform_request(**arguments)

    def _failure(self, call: Call, error: Exception) -> ServerError | None:
        import opensearchpy as os_py

        server = self._server
        if isinstance(error, os_py.ConnectionTimeout):
            return server.timed_out(call, error.error)
        if isinstance(error, os_py.ConnectionError):
            failure = server.untrusted if about_tls(error, (error.info,)) else server.out_of_reach
            return failure(call, error.error)
        if isinstance(error, os_py.TransportError) and isinstance(error.status_code, int):
            if error.status_code == 404 and call.missing_ok:
                return None
            return server.refused(call, error.status_code, error.info or error.error)
        if isinstance(error, os_py.SerializationError):
            return server.unreadable(call, "OpenSearch")
        return server.misused(call, error)


def _host_of(url: str) -> dict[str, Any]:
    """Return an address as the client wants it."""
    parts = urlsplit(url)
    host: dict[str, Any] = {"host": parts.hostname, "port": parts.port, "use_ssl": parts.scheme == "https"}
    return {**host, "url_prefix": parts.path} if parts.path else host


def _address(host: Mapping[str, Any]) -> str:
    """Return an address of the client's as a URL, without credentials."""
    scheme = "https" if host.get("use_ssl") or host.get("scheme") == "https" else "http"
    name = str(host.get("host") or "localhost").rpartition("@")[2]
    prefix = str(host.get("url_prefix") or "").strip("/")
    return f"{scheme}://{bracketed(name)}:{host.get('port') or 9200}{f'/{prefix}' if prefix else ''}"


def _sent(host: Mapping[str, Any]) -> list[str]:
    """Return the Authorization headers that go to a host."""
    headers = {str(name).lower(): str(value) for name, value in (host.get("headers") or {}).items()}
    sent = [headers["authorization"]] if "authorization" in headers else []
    given = host.get("http_auth")
    if isinstance(given, tuple | list):
        given = ":".join(str(part) for part in given)
    if isinstance(given, str):
        sent.append(f"Basic {base64.b64encode(given.encode()).decode()}")
    return sent
