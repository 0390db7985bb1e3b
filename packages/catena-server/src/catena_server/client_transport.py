"""Send calls through the client of a search server, sync or async, and report its failures as `ServerError`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import ssl
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Self, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from catena.effects import redact, retry_after_seconds
from catena.model import MissingExtraError, ParameterError, ServerError
from catena_server.calls import Call, Closing, Flavour


class ClientTransport(Closing):
    """The common part of the transports of both products; see `Transport`.

    Clients that are given are used as they stand, and neither changed nor closed. No credential shows in `repr`, in
    errors or in pickles: there are no pickles, as connections cannot be kept; connect in each process.

    Args:
        server: what errors say of it.
        client: sync.
        aclient: async, of the user's one event loop.
        make_async: makes an async client; one is made for each event loop, as its connections are bound to it. With
            neither this nor `aclient`, asyncio is answered in threads.
        owned: sync clients that `close` closes.
    """

    _driver: ClassVar[tuple[str, str, Flavour, str]]  # the client's module and package, its product, its sync class

    def __init__(
        self,
        server: Server,
        client: Any,
        aclient: Any = None,
        *,
        make_async: Callable[[], Any] | None = None,
        owned: tuple[Any, ...] = (),
    ) -> None:
        self._server, self._client, self._aclient = server, client, aclient
        self._make_async, self._owned = make_async, owned
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._making = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    def __reduce__(self) -> Any:
        raise ParameterError("transport", repr(self), "made in each process by connect(...): it holds connections")

    @classmethod
    def over(cls, server: Any, **connection: Any) -> Self:
        """Return a transport to addresses, or over a client that is given as it stands, sync or async.

        Args:
            server: as `connect` takes it, a client, or a transport, which is returned.
            connection: further arguments of `connect`, only for addresses.

        Raises:
            MissingExtraError: the client is not installed.
            ParameterError: a setting cannot be used.
        """
        kind: Any = cls  # each product has a `connect` and clients of its own
        client, aclient = cls._clients()
        if not isinstance(server, (cls, client, aclient)):
            return kind.connect(server, **connection)  # type: ignore[no-any-return]
        if connection:
            what = "none beside a client, which is connected already"
            raise ParameterError("connection", ", ".join(connection), what)
        if isinstance(server, cls):
            return server
        return kind(server) if isinstance(server, client) else kind(aclient=server)  # type: ignore[no-any-return]

    @classmethod
    def _clients(cls) -> tuple[Any, Any]:
        """Return the types of the sync and of the async client.

        Raises:
            MissingExtraError: the client is not installed.
        """
        module, package, flavour, name = cls._driver
        if find_spec(module) is None:
            raise MissingExtraError(package, f"catena-server[{flavour}]")
        client = import_module(module)
        return getattr(client, name), getattr(client, f"Async{name}")

    @classmethod
    def _given(cls, client: Any, aclient: Any) -> tuple[Any, Any]:
        """Return which client was given, the sync one of both, and the type of sync ones.

        Raises:
            MissingExtraError: the client is not installed.
            ParameterError: neither is given, or something else.
        """
        kind, akind = cls._clients()
        if not isinstance(client, kind | None) or not isinstance(aclient, akind | None):
            what = f"an {kind.__name__} and an {akind.__name__}"
            raise ParameterError("client, aclient", "other types", what)
        if client is None and aclient is None:
            raise ParameterError("client", None, f"an {kind.__name__}, or `aclient` an {akind.__name__}")
        return client or aclient, kind

    @classmethod
    def _own(cls, make: Callable[[], Any], make_async: Callable[[Self], Any] | None) -> Self:
        """Return a transport with clients of its own; where asyncio is answered in threads, no async one is made."""
        kind: Any = cls
        transport: Self = kind(made(make, f"{cls._driver[2]}-py"))
        transport._owned = (transport._client,)
        if find_spec("aiohttp") is not None and make_async is not None:
            transport._make_async = lambda: make_async(transport)
        return transport

    @property
    def identity(self) -> str:
        """The product and its addresses, without credentials."""
        return self._server.identity

    @property
    def flavour(self) -> Flavour:
        """The dialect that the server speaks."""
        return self._server.flavour

    def perform(self, call: Call) -> Any:
        """Return the body of the answer; True for a HEAD that finds something.

        Raises:
            ServerError: the server refused, or could not be reached.
            ParameterError: the body is no JSON.
        """
        arguments = self._arguments(call)
        try:
            return self._reply(call, self._request(self._client, call, arguments))
        except ServerError:
            raise
        except Exception as error:
            failure = self._failure(call, error)
        if failure is None:
            return None
        raise failure  # outside of the handler: what the client raised, which may hold a key, is not its context

    async def aperform(self, call: Call) -> Any:
        """As `perform`, without blocking the event loop."""
        client = self._aclient or await self._client_of_loop()
        if client is None:
            return await asyncio.to_thread(self.perform, call)
        arguments = self._arguments(call)
        try:
            return self._reply(call, await self._request(client, call, arguments))
        except ServerError:
            raise
        except Exception as error:
            failure = self._failure(call, error)
        if failure is None:
            return None
        raise failure

    def close(self) -> None:
        """Close the sync client that was made here."""
        for client in self._owned:
            client.close()

    async def aclose(self) -> None:
        """Close what was made here: the sync client, and the async one of this event loop."""
        client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await self._hang_up(client)
        self.close()

    async def _client_of_loop(self) -> Any:
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is not None or self._make_async is None:
            return found
        return await asyncio.to_thread(self._made_for, loop)  # reads certificates

    def _made_for(self, loop: asyncio.AbstractEventLoop) -> Any:
        with self._making:
            if loop not in self._by_loop and self._make_async is not None:
                self._by_loop[loop] = self._make_async()
            return self._by_loop.get(loop)

    async def _hang_up(self, client: Any) -> None:
        """Close an async client that was made here."""
        await client.close()

    @abstractmethod
    def _arguments(self, call: Call) -> dict[str, Any]:
        """Return the client's arguments for a call."""

    @abstractmethod
    def _request(self, client: Any, call: Call, arguments: dict[str, Any]) -> Any:
        """Return the client's answer, or what awaits it."""

    def _reply(self, call: Call, response: Any) -> Any:
        """Return the body of an answer; clients take it for one when a HEAD finds nothing."""
        body = getattr(response, "body", response)  # elasticsearch-py's answers hold more than the body
        if call.method != "HEAD":
            return body
        if body:
            return True
        if call.missing_ok:
            return None
        raise self._server.refused(call, 404, None)

    @abstractmethod
    def _failure(self, call: Call, error: Exception) -> ServerError | None:
        """Return our error for what the client raised; None for what may be missing."""


T = TypeVar("T")

MAX_MESSAGE = 400  # characters of what a server says that an error repeats
OTHER_NODES: Final = 3  # tried at once where a node cannot be reached; then the driver waits
OVERLOADED = frozenset({408, 429, 502, 503, 504})  # a later try may succeed

_SHORTEST_SECRET = 4  # characters; what is shorter cannot be told from parts of words
_READS = ("_search", "_msearch", "_count", "_mget", "_pit", "_termvectors", "_mtermvectors", "_explain")
_SETTINGS = {"apikey": "api_key", "basic": "basic_auth", "bearer": "bearer_auth"}
_LATER = "again later, with fewer requests at once (ServerOptions(in_flight=...))"
_BY_STATUS = {
    403: (
        "a key whose role has read, write, view_index_metadata and, to make or rebuild it, manage on the indices of "
        "this name"
    ),
    404: "check the name; an index set is made by opening it with create=True",
    413: "smaller batches (ServerOptions), or a higher http.max_content_length on the server or its proxy",
    **dict.fromkeys(OVERLOADED, _LATER),
}
_BY_KIND = {
    "media_type_header_exception": (
        "a client of the server's own major version: pip install 'elasticsearch<9' for a server 8"
    ),
    "circuit_breaking_exception": (
        "fewer or smaller requests at once, a smaller batch, or more memory (heap) for the server"
    ),
}
_OF_OPENSEARCH = ("unknown setting [index.knn]", "no handler for type [knn_vector]")  # with its k-NN plugin
_OF_NEWER_SERVERS = (  # how a server refuses what a newer one knows
    "future version",
    "no handler for type",
    "unknown field [",
    "unknown key for",
    "unknown query [",
    "unknown vector index options",
    "unrecognized parameter",
    "unsupported parameters",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server as errors describe it: no secret is shown, not even one that the server repeats.

    Attributes:
        identity: "elasticsearch at URL, URL", without credentials.
        setting: the name of the argument that holds the credentials, "" where none are sent.
        secrets: what is cut out of all that the server or its client says.
    """

    identity: str
    flavour: Flavour
    setting: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, flavour: Flavour, urls: Iterable[str], authorizations: Iterable[str]) -> Server:
        """Return the server at these addresses, asked under these Authorization headers."""
        found = tuple(dict.fromkeys(authorizations))
        schemes = [_SETTINGS.get(each.partition(" ")[0].lower(), "") for each in found]
        places = ", ".join(dict.fromkeys(urls)) or "an address that its client keeps"
        secrets = {secret for each in found for secret in _secrets_of(each)}
        return cls(
            identity=f"{flavour} at {places}",
            flavour=flavour,
            setting=next(filter(None, schemes), ""),
            secrets=tuple(sorted(secrets, key=lambda secret: (-len(secret), secret))),
        )

    def redacted(self, text: object) -> str:
        """Return foreign words as one short line without secrets."""
        shown = " ".join(redact(str(text), self.secrets).split())
        return f"{shown[:MAX_MESSAGE]}…" if len(shown) > MAX_MESSAGE else shown

    def refused(self, call: Call, status: int, body: Any, retry_after: str | None = None) -> ServerError:
        """Return the error for an answer that says no."""
        kind, reason = _kind_and_reason(body)
        kind, reason = self.redacted(kind), self.redacted(reason)
        named = f" {kind}" if kind else ""
        what = f"{_shown(call)} was refused (status {status}{named}){f': {reason}' if reason else ''}".rstrip(".")
        what += f". {_kept(call, carried_out_maybe=status >= 500)}. Try: {self._advice(status, kind, reason)}"
        retry = status in OVERLOADED and not _lasting(kind, reason, body)
        return ServerError(
            self.identity, what, retry, retry_after_seconds(retry_after) if retry else None, status, kind
        )

    def unreached(self, call: Call, kind: str, told: object, do_next: str, *, retry: bool) -> ServerError:
        """Return the error for a request that got no answer that can be read."""
        words = self.redacted(told)
        what = f"{_shown(call)} failed{f': {words}' if words else ''}"
        what += f". {_kept(call, carried_out_maybe=kind != 'tls')}. Try: {do_next}"
        return ServerError(self.identity, what, retry, None, None, kind)

    def unreadable(self, call: Call, product: str) -> ServerError:
        """Return the error for an answer that is no JSON; the client's text would repeat the whole of it."""
        hint = f"check that this is the address of {product} itself"
        return self.unreached(call, "unreadable", "the answer is no JSON", hint, retry=False)

    def misused(self, call: Call, error: Exception, kind: str = "client", hint: str = "") -> ServerError:
        """Return the error for what a client refuses by itself."""
        told = f"{type(error).__name__}: {error}"
        hint = hint or "the settings of the client that was given"
        return self.unreached(call, kind, told, hint, retry=False)

    def timed_out(self, call: Call, told: object) -> ServerError:
        """Return the error for an answer that did not come in time."""
        limit = f" within {call.seconds:g} s" if call.seconds is not None else " within the client's limit"
        hint = "again; a longer timeout, or fewer documents in a request"
        return self.unreached(call, "timeout", f"no answer{limit} ({told})", hint, retry=True)

    def out_of_reach(self, call: Call, told: object) -> ServerError:
        """Return the error for a server that cannot be connected to."""
        return self.unreached(call, "connection", told, "check that it runs at this address, then again", retry=True)

    def untrusted(self, call: Call, told: object) -> ServerError:
        """Return the error for a connection that TLS does not allow."""
        hint = (
            "ca_certs= with the authority that signed its certificate (http_ca.crt of the server), or "
            "ssl_assert_fingerprint=; an address with the host name that the certificate is for, and https:// only "
            "where the server speaks TLS"
        )
        return self.unreached(call, "tls", told, hint, retry=False)

    def _advice(self, status: int, kind: str, reason: str) -> str:
        low = reason.lower()
        if status == 401:
            return (
                f"a valid credential in {self.setting}=, which this server does not accept"
                if self.setting
                else "api_key=..., or basic_auth=(user, password): no credentials were sent"
            )
        if kind == "cluster_block_exception":
            return _about_block(low)
        if other := _other_product(self.flavour, status, low):
            return other
        if "media-type" in low or "compatible-with" in low:
            kind = "media_type_header_exception"
        if status == 400 and any(words in low for words in _OF_NEWER_SERVERS):
            return "a newer server: Elasticsearch 8.19 or later, OpenSearch 2.19 or later, with its k-NN plugin"
        return _BY_KIND.get(kind) or _BY_STATUS.get(status) or "see the server's log for the whole reason"


def encoded(call: Call) -> tuple[str, bytes | None]:
    """Return the content type and the bytes of a call's body.

    Text is sent as it is; where it holds halves of surrogate pairs, which are no UTF-8, all is escaped.

    Raises:
        ParameterError: the body is no JSON.
    """
    try:
        if call.lines is not None:
            return "application/x-ndjson", b"".join(_json(line) + b"\n" for line in call.lines)
        return "application/json", None if call.body is None else _json(call.body)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"body of {_shown(call)}", type(error).__name__, f"JSON values ({error})") from None


def parameters(call: Call) -> dict[str, str]:
    """Return the parameters of the query string."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in call.params.items()}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of a server, and the name and password that were in them."""

    urls: tuple[str, ...]
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)


def bracketed(host: str) -> str:
    """Return a host as it stands in an address: one of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def addresses(url: str | Iterable[str]) -> Addresses:
    """Return addresses without the credentials in them.

    Raises:
        ParameterError: one is no http(s) address, or two name different users.
    """
    found: list[str] = []
    users: set[tuple[str, str]] = set()
    for number, each in enumerate([url] if isinstance(url, str) else list(url)):
        try:
            parts = urlsplit(each)
            host, port = parts.hostname, parts.port
        except (TypeError, ValueError, AttributeError):
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in {"http", "https"} or not host:
            raise ParameterError(
                f"url {number}",
                "***",
                "an address that begins with http:// or https://, as https://search.example.org:9200",
            )
        if parts.username or parts.password:
            users.add((unquote(parts.username or ""), unquote(parts.password or "")))
        port = port or (443 if parts.scheme == "https" else 80)
        found.append(urlunsplit((parts.scheme, f"{bracketed(host)}:{port}", parts.path.rstrip("/"), "", "")))
    if not found:
        raise ParameterError("url", url, "at least one address")
    if len(users) > 1:
        raise ParameterError("url", "***", "addresses of one cluster, with one name and password")
    return Addresses(tuple(found), next(iter(users), None))


def connection(
    url: str | Iterable[str] | None,
    credentials: Mapping[str, Any],
    files: Mapping[str, str | None],
    *,
    timeout: float,
    verify: bool,
) -> tuple[tuple[str, ...], dict[str, Any], ssl.SSLContext | None]:
    """Return the addresses, the credentials and the TLS context of a connection, None where it has no TLS.

    Args:
        url: None where the client knows the address, which has TLS.
        credentials: by kind, one of them at most; a name and password in the address are "basic_auth".
        files: paths of PEM files, as `trusting` takes them.
        timeout: in seconds.
        verify: False believes any certificate.

    Raises:
        ParameterError: an address or a setting cannot be used.
    """
    where = Addresses(()) if url is None else addresses(url)
    credentials = {**credentials, "basic_auth": credentials["basic_auth"] or where.basic_auth}
    several = [name for name, value in credentials.items() if value]
    if len(several) > 1:  # no value is shown
        raise ParameterError("credentials", " and ".join(several), "only one of " + ", ".join(credentials))
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise ParameterError("timeout", timeout, "seconds > 0")
    secure = url is None or any(each.startswith("https:") for each in where.urls)
    # now, or the first request would say what is wrong with the certificates
    return where.urls, credentials, made(lambda: trusting(**files, verify=verify), "TLS") if secure else None


def trusting(
    ca_certs: str | None = None, client_cert: str | None = None, client_key: str | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """Return the TLS context of a connection, by paths of PEM files; certifi's authorities by default.

    Raises:
        OSError: a path leads to no certificates.
    """
    if ca_certs is None and find_spec("certifi") is not None:
        import certifi

        ca_certs = certifi.where()
    folder = ca_certs is not None and os.path.isdir(ca_certs)
    context = ssl.create_default_context(cafile=None if folder else ca_certs, capath=ca_certs if folder else None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_cert is not None:
        context.load_cert_chain(client_cert, client_key)
    return context


def about_tls(error: BaseException, causes: Iterable[object]) -> bool:
    """Tell a certificate that is refused from a broken line, which clients call by one name."""
    kinds = {kind.__name__ for each in (error, *causes) for kind in type(each).__mro__}
    return not kinds.isdisjoint({"SSLError", "TlsError", "ClientSSLError", "ServerFingerprintMismatch"})


def made(make: Callable[[], T], client: str) -> T:
    """Return a client of ours.

    Raises:
        ParameterError: it refuses its settings; what it says may hold them, and is not repeated.
    """
    try:
        return make()
    except OSError as error:  # ssl's errors are such
        name, why = type(error).__name__, "paths of certificates that can be read"
    except Exception as error:
        name, why = type(error).__name__, f"such as {client} takes"
    raise ParameterError("settings of the client", name, why)


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def _shown(call: Call) -> str:
    path = call.path if len(call.path) <= 160 else f"{call.path[:160]}…"
    return f"{call.method} {path}"


def _kept(call: Call, *, carried_out_maybe: bool) -> str:
    name = call.path.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
    if call.method in {"GET", "HEAD"} or name in _READS:
        return "Nothing was changed"
    if carried_out_maybe:
        return "It may have been carried out; what was written before stays, and sending it again doubles nothing"
    return "Nothing of this request was carried out; what was written before stays"


def _kind_and_reason(body: Any) -> tuple[str, str]:
    """Return the server's word for what is wrong, and its reasons, outermost first."""
    error = body.get("error", body.get("message", "")) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        text = error.decode("utf-8", "replace") if isinstance(error, bytes) else str(error or "")
        return "", text
    first = error
    if error.get("type") == "search_phase_execution_exception":  # says only that shards failed; they say why
        roots = [*_mappings(error.get("root_cause"))]
        shards = [shard.get("reason") for shard in _mappings(error.get("failed_shards"))]
        first = next((each for each in [*roots, *_mappings(shards)] if each.get("type")), error)
    reasons = [str(error.get("reason") or ""), str(first.get("reason") or "")]
    cause: Any = error.get("caused_by")
    for _ in range(3):  # deeper ones repeat
        if not isinstance(cause, Mapping):
            break
        reasons.append(str(cause.get("reason") or ""))
        cause = cause.get("caused_by")
    kind = str(first.get("type") or error.get("type") or "")
    told: list[str] = []
    for reason in filter(None, reasons):
        if not any(reason in earlier for earlier in told):
            told.append(reason)
    return kind, "; ".join(told)


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return [each for each in values if isinstance(each, Mapping)] if isinstance(values, list) else []


def _lasting(kind: str, reason: str, body: Any) -> bool:
    """Tell what has an "again later" status, and yet will not go away by itself."""
    if kind == "cluster_block_exception":
        return "read-only" in reason.lower() or "flood" in reason.lower()
    error = body.get("error") if isinstance(body, Mapping) else None
    return isinstance(error, Mapping) and error.get("durability") == "PERMANENT"


def _other_product(flavour: Flavour, status: int, reason: str) -> str:
    """Return what to do where the server seems to be of the other product, "" where it does not."""
    if flavour == "elasticsearch" and status == 406:  # OpenSearch knows no media type of Elasticsearch
        return "catena_server.opensearch for OpenSearch, or a client of Elasticsearch's own major version"
    if flavour == "opensearch" and status == 400 and any(words in reason for words in _OF_OPENSEARCH):
        return "catena_server.elasticsearch for Elasticsearch; for OpenSearch, its k-NN plugin"
    return ""


def _about_block(reason: str) -> str:
    if "flood" in reason or "read-only-allow-delete" in reason or "read-only / allow delete" in reason:
        return "more room on the server's disk (it is over its flood-stage watermark), then again; nothing is lost"
    if "read-only" in reason or "write" in reason:
        return 'index.blocks.write and index.blocks.read_only set to null ("PUT /INDEX/_settings"), then again'
    return "again when the cluster has recovered and has a master"


def _secrets_of(authorization: str) -> set[str]:
    """Return all that must not be shown of an Authorization header: the words, and what base64 hides."""
    credential = authorization.partition(" ")[2].strip() or authorization.strip()
    secrets = {authorization.strip(), credential}
    try:
        plain = base64.b64decode(credential, validate=True).decode()
    except (binascii.Error, ValueError):
        plain = ""
    name, colon, secret = plain.partition(":")
    secrets |= {plain, secret} if colon else {plain}
    if authorization.lower().startswith("apikey "):
        secrets.add(name)
    return {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
