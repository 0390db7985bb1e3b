"""A transport over the client of a search server: sync or async, of the user's or its own; who made it closes it."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from catena.model.errors import ParameterError, ServerError
from catena.server.call import Call, Flavour
from catena.server.search_server import Server


class ClientTransport(ABC):
    """What the transports of both products do alike; `Transport` of `catena.server.call` says what they are for.

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

    @property
    def identity(self) -> str:
        """The product and its addresses, without credentials."""
        return self._server.identity

    @property
    def flavour(self) -> Flavour:
        """Which dialect the server speaks."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

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
        """Return what the client is given for a call."""

    @abstractmethod
    def _request(self, client: Any, call: Call, arguments: dict[str, Any]) -> Any:
        """Return the client's answer, or what awaits it."""

    @abstractmethod
    def _reply(self, call: Call, response: Any) -> Any:
        """Return the body of an answer."""

    @abstractmethod
    def _failure(self, call: Call, error: Exception) -> ServerError | None:
        """Return our error for what the client raised; None for what may be missing."""
