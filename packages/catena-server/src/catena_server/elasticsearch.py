"""Elasticsearch by its official client (extra `elasticsearch`), sync and async: sends the calls of `catena_server`.

The client's own node pool, TLS and authentication are used; what may be tried again is tried again by our driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

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
    from elasticsearch import AsyncElasticsearch, Elasticsearch


class ElasticsearchTransport(ClientTransport):
    """Sends calls through clients of Elasticsearch; make one with `connect`, or give clients that you have.

    A sync client alone answers asyncio in threads; beside an async client alone, a sync one is
    made with its settings.

    Args:
        client: elasticsearch-py from 8.19 to 9.
        aclient: its async twin.

    Raises:
        MissingExtraError: the client is not installed.
        ParameterError: neither client is given.
    """

    _driver = ("elasticsearch", "elasticsearch", "elasticsearch", "Elasticsearch")

    def __init__(self, client: Elasticsearch | None = None, aclient: AsyncElasticsearch | None = None) -> None:
        given, kind = self._given(client, aclient)
        nodes = [node.config for node in given.transport.node_pool.all()]
        headers = [given._headers, *(node.headers for node in nodes)]  # private: nothing else holds them
        server = Server.of(
            "elasticsearch",
            (f"{node.scheme}://{bracketed(node.host)}:{node.port}{node.path_prefix}" for node in nodes),
            (each["authorization"] for each in headers if "authorization" in each),
        )
        self._others = min(OTHER_NODES, len(nodes) - 1)
        twin = None
        if client is None:
            twin = client = kind(nodes)
            twin._headers = given._headers.copy()  # made here: for its credentials
        tuned = None if aclient is None else self._tuned(aclient)
        super().__init__(server, self._tuned(client), tuned, owned=() if twin is None else (twin,))

    @classmethod
    def connect(
        cls,
        url: str | Iterable[str] | None = None,
        *,
        cloud_id: str | None = None,
        api_key: str | tuple[str, str] | None = None,
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
            cloud_id: instead of `url`, on Elastic Cloud.
            api_key: as the server encodes it, or its id and its key.
            basic_auth: name and password.
            bearer_auth: a token.
            ca_certs: path of the certificates that are trusted, instead of certifi's.
            verify_certs: False believes any certificate.
            ssl_assert_fingerprint: SHA-256 of the server's certificate, in hex.
            client_cert: path of a certificate of our own.
            client_key: path of its key.
            headers: sent with each request.
            timeout: seconds to wait for an answer, where a call does not say.

        Raises:
            MissingExtraError: the client is not installed.
            ParameterError: an address or a setting cannot be used.
        """
        kind, akind = cls._clients()
        if (url is None) == (cloud_id is None):
            raise ParameterError("url", None if url is None else "***", "given, or cloud_id, and not both")
        files = {"ca_certs": ca_certs, "client_cert": client_cert, "client_key": client_key}
        given = {"api_key": api_key, "basic_auth": basic_auth, "bearer_auth": bearer_auth}
        urls, credentials, _ = connection(url, given, files, timeout=timeout, verify=verify_certs)
        settings: dict[str, Any] = {
            "hosts": list(urls) or None,
            "cloud_id": cloud_id,
            "request_timeout": timeout,
            "headers": dict(headers) if headers else None,
            "ssl_assert_fingerprint": ssl_assert_fingerprint,
            **credentials,
            **files,
        }
        settings = {name: value for name, value in settings.items() if value is not None}
        if not verify_certs:
            settings |= {"verify_certs": False, "ssl_show_warn": False}
        return cls._own(lambda: kind(**settings), lambda own: own._tuned(akind(**settings)))

    def _tuned(self, client: Any) -> Any:
        """Return a client over the same connections that leaves repetition to the driver, but for other nodes."""
        return client.options(max_retries=self._others, retry_on_status=(), retry_on_timeout=False, ignore_status=())

    def _arguments(self, call: Call) -> dict[str, Any]:
        content, body = encoded(call)
        headers = {"accept": "application/json"}
        if body is not None:
            headers["content-type"] = content
        return {
            "method": call.method,
            "path": call.path,
            "params": parameters(call),
            "headers": headers,
            "body": body,
        }

    def _request(self, client: Any, call: Call, arguments: dict[str, Any]) -> Any:
        limited = client if call.seconds is None else client.options(request_timeout=call.seconds)
        return limited.perform_request(**arguments)

    def _failure(self, call: Call, error: Exception) -> ServerError | None:
        """Return our error for what the client raised; None for what may be missing."""
        import elasticsearch as es

        server = self._server
        if isinstance(error, es.ApiError) and not isinstance(error, es.UnsupportedProductError):
            if error.meta.status == 404 and call.missing_ok:
                return None
            return server.refused(call, error.meta.status, error.body, error.meta.headers.get("retry-after"))
        told = getattr(error, "message", error)  # the text of a connection's error leaves out what it is about
        if isinstance(error, es.ConnectionTimeout):
            return server.timed_out(call, told)
        if isinstance(error, es.ConnectionError | OSError):
            failure = server.untrusted if about_tls(error, (error.__context__,)) else server.out_of_reach
            return failure(call, told)
        if isinstance(error, es.SerializationError):
            return server.unreadable(call, "Elasticsearch")
        kind, hint = "client", ""
        if isinstance(error, es.UnsupportedProductError):
            kind = "unsupported_product"
            hint = "catena_server.opensearch for OpenSearch; for a proxy, one that passes X-Elastic-Product on"
        return server.misused(call, error, kind, hint)
