"""The tests that every hosted reranker and embedder passes, over the recordings of its own test module."""

import asyncio
import copy
import functools
import pickle
import sys
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from catena.effects import Embedder, Rate, Reranker, Retry, Services, arun, ask, run
from catena.model import InvalidReplyError, ParameterError, ServiceError
from catena.testing import FakeClock

KEY = "pa-test-0123456789abcdefghij"
QUERY = "Which fuse does the pump need?"
DOCUMENTS = ("The pump needs a 250 mA fuse.", "Tighten the screws.", "Fuses are behind the cover.")
TEXTS = ("first text", "second text", "third text")
SCORES = (0.91, 0.03, 0.42)
ROWS = np.array([[0.6, 0, 0, 0.8], [0, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]], dtype=np.float32)


class Failure(NamedTuple):
    """What a recording of an error is to become."""

    name: str
    retry: bool
    retry_after: float | None  # seconds
    words: str


FAILURES = [
    Failure("400", False, None, "9000 tokens"),
    Failure("401", False, None, "invalid api token"),
    Failure("403", False, None, "may not use this model"),
    Failure("422", False, None, "invalid value for parameter"),
    Failure("429", True, 7.0, "too many requests"),
    Failure("429_date", True, 0.0, "too many requests"),
    Failure("429_bare", True, None, "too many requests"),
    Failure("500", True, None, "status 500"),
    Failure("503", True, 3.0, "status 503"),
    Failure("529", True, None, "overloaded"),
]


def recorded(operation: str, *cases: Any) -> list[Any]:
    """Return (operation, case) for each case, which plays the recording of its name."""
    named = [(case, getattr(case, "name", case)) for case in cases]
    return [
        pytest.param(operation, case, marks=played(f"{operation}_{n}"), id=f"{operation}-{n}") for case, n in named
    ]


def played(name: str) -> tuple[pytest.MarkDecorator, ...]:
    return pytest.mark.vcr, pytest.mark.default_cassette(f"{name}.yaml"), pytest.mark.block_network


def recording(name: str) -> Any:
    """Play one recording in a test."""

    def decorate(test: Any) -> Any:
        for mark in played(name):
            test = mark(test)
        return test

    return decorate


@functools.cache
def shared(kind: type, **options: int) -> Any:
    """Return the one instance for all tests: to load certificates takes longer than a test."""
    return kind(api_key=KEY, **options)


class HostedCases:
    """Cases over one service; its test module says what is special about it."""

    backend: ClassVar[ModuleType]
    reranker_type: ClassVar[type]
    embedder_type: ClassVar[type]
    service: ClassVar[str]
    package: ClassVar[str]
    variable: ClassVar[str]
    rerank_limit: ClassVar[str]  # the constant of the backend that limits the texts of a request
    embed_limit: ClassVar[str]

    @pytest.fixture
    def reranker(self) -> Any:
        return shared(self.reranker_type)

    @pytest.fixture
    def embedder(self) -> Any:
        return shared(self.embedder_type, dim=4)

    @pytest.fixture(params=["sync", "async"])
    def call(self, request: pytest.FixtureRequest) -> Any:
        """Call a method, or await its async twin."""
        if request.param == "sync":
            return lambda owner, name, *asked: getattr(owner, name)(*asked)
        return lambda owner, name, *asked: asyncio.run(getattr(owner, f"a{name}")(*asked))

    @pytest.fixture
    def score(self, call: Any, reranker: Any) -> Any:
        return functools.partial(call, reranker, "score")

    @pytest.fixture
    def embed(self, call: Any, embedder: Any) -> Any:
        return functools.partial(call, embedder, "embed_documents")

    @pytest.fixture
    def ask(self, score: Any, embed: Any) -> Any:
        """Ask what the recordings of an operation answer."""
        return lambda operation: score(QUERY, DOCUMENTS) if operation == "rerank" else embed(TEXTS)

    # Rerank

    @recording("rerank")
    def test_scores_come_in_the_order_of_the_texts(self, score, vcr):
        assert score(QUERY, DOCUMENTS) == SCORES
        assert vcr.play_count == 1

    @recording("rerank")
    @pytest.mark.parametrize(
        ("query", "documents"),
        [("Which fuse?", DOCUMENTS), (QUERY, DOCUMENTS[::-1]), (QUERY, DOCUMENTS[:2])],
        ids=["query", "order", "fewer"],
    )
    def test_another_question_is_not_answered_by_a_recording(self, score, vcr, query, documents):
        with pytest.raises(ServiceError):
            score(query, documents)
        assert vcr.play_count == 0

    @recording("rerank_split")
    def test_requests_are_split_where_the_service_wants_it_and_joined_again(self, score, vcr, monkeypatch):
        monkeypatch.setattr(self.backend, self.rerank_limit, 2)
        assert score(QUERY, DOCUMENTS) == SCORES
        assert vcr.all_played

    @recording("rerank")
    def test_an_empty_text_is_not_sent_and_scores_nothing(self, score, vcr):
        assert score(QUERY, ("", *DOCUMENTS, " \n")) == (0.0, *SCORES, 0.0)
        assert vcr.all_played

    @recording("rerank")
    def test_nothing_to_score_takes_no_request(self, score, vcr):
        assert score(QUERY, ()) == ()
        assert score(QUERY, ("", " ")) == (0.0, 0.0)
        with pytest.raises(ParameterError, match="query"):
            score(" ", DOCUMENTS)
        assert vcr.play_count == 0

    @pytest.mark.parametrize(("operation", "case"), [*recorded("rerank", *FAILURES), *recorded("embed", *FAILURES)])
    def test_a_failure_says_whether_and_when_to_try_again(self, ask, vcr, operation, case):
        with pytest.raises(ServiceError, match=case.words) as caught:
            ask(operation)
        assert vcr.play_count == 1, "the driver retries, not the SDK"
        error = caught.value
        assert (error.retry, error.retry_after) == (case.retry, case.retry_after)
        assert not isinstance(error, InvalidReplyError)
        assert KEY not in repr(error)
        assert len(str(error)) < 500
        assert (self.variable in str(error)) == (case.name in ("401", "403"))
        assert error.__suppress_context__
        assert str(pickle.loads(pickle.dumps(error))) == str(error)

    @pytest.mark.parametrize(
        ("operation", "name"),
        [
            *recorded("rerank", "malformed", "html", "missing", "short", "duplicate"),
            *recorded("rerank", "out_of_range", "negative", "no_score"),
            *recorded("embed", "malformed", "html", "missing", "short", "ragged", "zero"),
        ],
    )
    def test_what_does_not_fit_the_texts_is_refused(self, ask, vcr, operation, name):
        with pytest.raises(InvalidReplyError) as caught:
            ask(operation)
        assert not caught.value.retry
        assert KEY not in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        assert vcr.play_count == 1

    # Embed

    @recording("embed")
    def test_rows_are_unit_and_in_order(self, embed, vcr):
        rows = embed(TEXTS)
        np.testing.assert_allclose(rows, ROWS, atol=1e-7)
        assert (rows.dtype, rows.shape) == (np.float32, (3, 4))
        assert vcr.play_count == 1

    @recording("embed_query")
    def test_a_query_is_embedded_as_one(self, call, embedder, vcr):
        np.testing.assert_allclose(call(embedder, "embed_query", QUERY), ROWS[0], atol=1e-7)

    @recording("embed_split")
    def test_texts_are_split_where_the_service_wants_it_and_joined_again(self, embed, vcr, monkeypatch):
        monkeypatch.setattr(self.backend, self.embed_limit, 2)
        np.testing.assert_allclose(embed(TEXTS), ROWS, atol=1e-7)
        assert vcr.all_played

    @recording("embed")
    def test_empty_texts_are_refused_before_anything_is_sent(self, embed, vcr):
        assert embed(()).shape == (0, 4)
        with pytest.raises(ParameterError, match=r"texts\[1\]"):
            embed(("a", " "))
        assert vcr.play_count == 0

    # Without a connection

    def test_a_connection_that_fails_may_be_tried_again(self, call):
        near = self.reranker_type(api_key=KEY, base_url="http://127.0.0.1:1", timeout=2)
        with pytest.raises(ServiceError) as caught:
            call(near, "score", QUERY, DOCUMENTS)
        assert (caught.value.retry, caught.value.retry_after) == (True, None)

    # The key

    def test_the_key_shows_nowhere(self, reranker, embedder, monkeypatch):
        monkeypatch.setenv(self.variable, "the-key-of-the-other-place")
        for made in (reranker, embedder):
            assert KEY not in repr(made) + made.identity + repr(made._account) + str(made._account)
            payload = pickle.dumps(made)
            assert KEY.encode() not in payload
            revived = pickle.loads(payload)
            assert revived.identity == made.identity
            assert revived._account.key == "the-key-of-the-other-place"
            assert copy.copy(made).identity == made.identity

    @recording("rerank_401")
    def test_a_key_that_the_service_repeats_is_taken_out(self, vcr):
        plain = self.reranker_type(api_key="token")  # a word of the recorded message
        with pytest.raises(ServiceError, match=r"invalid api \*\*\*"):
            plain.score(QUERY, DOCUMENTS)

    def test_a_key_is_needed_and_may_come_from_the_environment(self, monkeypatch):
        monkeypatch.delenv(self.variable, raising=False)
        for made in (self.reranker_type, self.embedder_type):
            with pytest.raises(ParameterError, match=self.variable):
                made()
        with pytest.raises(ParameterError, match="printable") as caught:
            self.reranker_type(api_key="kéy")
        assert "kéy" not in str(caught.value)
        monkeypatch.setenv(self.variable, f" {KEY}\n")
        assert self.reranker_type()._account.key == KEY

    # What it is called, and what it needs

    def test_they_are_a_reranker_and_an_embedder_with_names(self, reranker, embedder):
        assert isinstance(reranker, Reranker)
        assert isinstance(embedder, Embedder)
        assert reranker.identity == f"{self.service}/{reranker.model}"
        assert embedder.identity == f"{self.service}/{embedder.model};4 dimensions"
        assert embedder.dim == 4

    def test_whatever_changes_replies_changes_the_identity(self, reranker, embedder):
        changed = [
            self.reranker_type("other", api_key=KEY),
            self.reranker_type(api_key=KEY, truncate=True),
            self.reranker_type(api_key=KEY, base_url="https://user:pass@models.example:8443/v9/"),
            self.embedder_type(api_key=KEY),
            self.embedder_type(api_key=KEY, dim=4, truncate=True),
            self.embedder_type("other", api_key=KEY, dim=4),
        ]
        identities = {made.identity for made in (reranker, embedder, *changed)}
        assert len(identities) == 8
        assert not any("pass" in identity for identity in identities)
        assert f"{self.service}:models.example:8443/v9/{reranker.model}" in identities

    def test_an_unknown_embedding_model_needs_its_dimension(self):
        with pytest.raises(ParameterError, match="unheard-of"):
            self.embedder_type("unheard-of", api_key=KEY)

    def test_the_module_loads_without_its_sdk(self):
        import subprocess

        code = f"import sys, {self.backend.__name__}; print({self.package!r} in sys.modules, 'numpy' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["False", "False"]

    # Long texts

    def test_a_long_text_is_scored_by_its_best_window_and_nothing_is_dropped(self, reranker):
        long = " ".join(f"word{number}" for number in range(20_000))
        plan = reranker._plan(QUERY, ("short", long))
        assert "".join(piece for piece, owner in zip(plan.pieces, plan.owners, strict=True) if owner == 1) == long
        assert len(plan.pieces) > 2
        scores = [0.1] + [0.2] * (len(plan.pieces) - 1)
        scores[-1] = 0.7
        assert plan.scores([scores[run] for run in plan.runs]) == (0.1, 0.7)

    def test_a_long_text_is_sent_whole_where_truncation_is_asked_for(self):
        long = "word " * 20_000
        plan = self.reranker_type(api_key=KEY, truncate=True)._plan(QUERY, ("short", long))
        assert plan.pieces == ("short", long)

    # With the driver

    @pytest.mark.parametrize("how", ["threads", "asyncio"])
    @recording("rerank_429")
    def test_the_driver_waits_as_long_as_the_service_asks(self, reranker, vcr, how):
        clock, events = FakeClock(), []
        services = Services(reranker=reranker, clock=clock, retry=Retry(attempts=2), progress=events.append)
        step = ask([Rate(query=QUERY, texts=DOCUMENTS)])
        replies = run(step, services) if how == "threads" else asyncio.run(arun(step, services))
        assert replies == [SCORES]
        assert clock.now() == pytest.approx(7.0)
        assert [event.kind for event in events] == ["started", "retried", "started", "finished"]
        assert vcr.all_played
