"""The OpenAI-compatible model against a server on this machine: replies, faults, secrets, and `catena ask`."""

import asyncio
import pickle
from collections.abc import Iterator
from dataclasses import replace

import pytest
from stub_server import Answer, Stub, serving
from typer.main import get_command
from typer.testing import CliRunner

from catena.backends import OpenAILLM
from catena.cli.app import app
from catena.effects import LLM, Complete, Completion, Retry, Services, arun, ask, run
from catena.model import InvalidReplyError, ParameterError, ServiceError

KEY = "sk-test-0123456789abcdefghij"
REQUEST = Complete(prompt="Which fuse?", purpose="test", system="Be short.", max_tokens=50)


def chat(text="250 mA slow", **message):
    finish = message.pop("finish_reason", "stop")
    reply = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    about = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**about, "choices": [reply], "usage": usage}


def said(*texts, **message):
    """Return an answer with a reply of the model."""
    return Answer(body=chat(*texts, **message))


def refused(message, status=400, **more):
    return Answer(status=status, body={"error": {"message": message, **more}})


@pytest.fixture
def server() -> Iterator[Stub]:
    with serving(said()) as stub:
        stub.url += "/v1"
        yield stub


@pytest.fixture
def llm(server, monkeypatch) -> Iterator[OpenAILLM]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = OpenAILLM("small", api_key=KEY, base_url=server.url, timeout=5)
    yield made
    made.close()


@pytest.fixture(params=["sync", "async"])
def complete(request, llm):
    """Ask the model both ways."""
    return llm.complete if request.param == "sync" else lambda asked: asyncio.run(llm.acomplete(asked))


def test_a_reply_comes_with_its_tokens_and_the_request_holds_prompt_system_and_limit(complete, server):
    assert complete(REQUEST) == Completion(text="250 mA slow", finish_reason="stop", input_tokens=7, output_tokens=3)
    assert [seen.path for seen in server.seen] == ["/v1/chat/completions"]
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Which fuse?"}]
    assert server.bodies == [{"model": "small", "messages": messages, "max_tokens": 50}]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


REFUSED = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


def test_a_service_that_wants_the_new_name_of_the_limit_is_asked_by_it_from_then_on(complete, server):
    server.answers = [refused(REFUSED, param="max_tokens", code="unsupported_parameter"), said()]
    for _ in range(2):
        assert complete(REQUEST).text == "250 mA slow"
    limits = [{name: value for name, value in body.items() if name.startswith("max")} for body in server.bodies]
    assert limits == [{"max_tokens": 50}, {"max_completion_tokens": 50}, {"max_completion_tokens": 50}]


FORMED = replace(REQUEST, schema='{"title": "short", "type": "object"}')


@pytest.mark.parametrize(
    "answer",
    [
        refused("response_format json_schema is not supported"),
        refused("Invalid parameter: structured outputs not available for model"),
        refused("No endpoints found that can handle the requested parameters", 404),
        refused("extra fields not permitted", 422),
        refused("response_format not implemented", 501),
        refused("failed to parse grammar", 500),
    ],
    ids=lambda answer: f"{answer.status} {answer.body['error']['message'][:20]}",
)
def test_whatever_a_service_says_to_a_form_it_is_asked_without_and_so_from_then_on(complete, server, answer):
    server.answers = [answer, said()]
    for _ in range(2):
        assert complete(FORMED).text == "250 mA slow"
    assert ["response_format" in body for body in server.bodies] == [True, False, False]


BROKEN = refused("Internal Server Error", 500)
TOO_LONG = [refused("context length exceeded: schema of 4096 tokens"), refused("context length exceeded")]


@pytest.mark.parametrize(
    ("answers", "forms"),
    [
        (TOO_LONG, [True, False]),  # it is not the form: the same is refused without it
        ([BROKEN, said()], [True, False]),  # it may have passed by itself
        ([BROKEN, BROKEN], [True, False]),
        ([refused("overloaded", 503)], [True]),
    ],
)
def test_a_form_that_was_not_what_the_service_refused_goes_out_again(complete, server, answers, forms):
    server.answers = [*answers, said()]
    if answers[-1].status == 200:
        complete(FORMED)
    else:
        with pytest.raises(ServiceError):
            complete(FORMED)
    complete(FORMED)
    assert ["response_format" in body for body in server.bodies] == [*forms, True]


@pytest.mark.parametrize("name", ["temperature", "seed", "reasoning_effort"])
def test_an_option_that_a_service_refuses_is_left_out_and_that_is_told_once(server, caplog, name):
    options = {"temperature": 0, "seed": 7, "reasoning_effort": "low"}
    server.answers = [refused(f"Unsupported value: '{name}' does not support this.", param=name), said()]
    with OpenAILLM("small", api_key=KEY, base_url=server.url, **options) as llm:
        for _ in range(2):
            assert llm.complete(REQUEST).text == "250 mA slow"
        assert asyncio.run(llm.acomplete(REQUEST)).text == "250 mA slow"
    assert [name in body for body in server.bodies] == [True, False, False, False]
    assert [set(options) - set(body) for body in server.bodies] == [set(), {name}, {name}, {name}]
    (told,) = caplog.messages
    assert name in told


def test_several_parts_that_are_refused_one_after_the_other_are_all_left_out(complete, server):
    server.answers = [refused(REFUSED), refused("response_format is unknown"), said()]
    assert complete(FORMED).text == "250 mA slow"
    assert {"max_completion_tokens": 50}.items() <= server.bodies[-1].items()
    assert "response_format" not in server.bodies[-1]


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 4096. This model supports at most 2048 completion tokens",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 2048]",
        "max_tokens: 4096 > 2048, which is the maximum allowed number of output tokens",
        "`max_tokens` must be less than or equal to `2048`",
    ],
)
def test_a_limit_above_the_most_of_a_model_is_lowered_to_that(complete, server, message):
    server.answers = [refused(message), said()]
    for limit in (4_096, 5_000, 50):
        assert complete(replace(REQUEST, max_tokens=limit)).text == "250 mA slow"
    assert [body["max_tokens"] for body in server.bodies] == [4_096, 2_048, 2_048, 50]


def test_a_context_that_is_too_long_is_no_limit_of_replies(complete, server):
    server.answers = [
        refused("maximum context length is 4096 tokens, you requested up to 90 with max_tokens of 4096")
    ]
    with pytest.raises(ServiceError):
        complete(replace(REQUEST, max_tokens=4_096))
    assert len(server.bodies) == 1


def test_options_of_a_request_go_out_and_are_part_of_the_identity(server):
    options = {"temperature": 0, "seed": 7, "reasoning_effort": "low", "extra_body": {"top_k": 20}}
    with OpenAILLM("small", api_key=KEY, base_url=server.url, **options) as llm:
        llm.complete(REQUEST)
        assert ";temperature=0;seed=7;reasoning_effort=low;body=" in llm.identity
    sent = server.bodies[0]
    assert (sent["temperature"], sent["seed"], sent["reasoning_effort"], sent["top_k"]) == (0, 7, "low", 20)
    wrongs = (
        {"timeout": 0}, {"timeout": "5"}, {"timeout": True}, {"timeout": float("nan")}, {"temperature": -1},
        {"temperature": "0"}, {"temperature": True}, {"seed": 1.5}, {"seed": True}, {"reasoning_effort": 3},
        {"extra_body": [1]},
    )  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            OpenAILLM("small", api_key=KEY, **wrong)


def test_a_model_that_thinks_is_known_by_what_it_counts_or_shows(complete, server):
    counted = {**chat(), "usage": {"prompt_tokens": 7, "completion_tokens": 90, "total_tokens": 97}}
    counted["usage"]["completion_tokens_details"] = {"reasoning_tokens": 80}
    server.answers = [Answer(body=counted), said(reasoning_content="Let me think." * 4)]
    assert [complete(REQUEST).reasoning_tokens for _ in range(2)] == [80, 13]


IN_PARTS = [{"type": "thinking", "thinking": "Hm."}, *({"type": "text", "text": letter} for letter in "ab")]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (chat("half of", finish_reason="length"), ("half of", "length")),
        (chat("", finish_reason="content_filter"), ("", "content_filter")),
        (chat(None, refusal="I cannot help with that."), ("I cannot help with that.", "refusal")),
        (chat(None), ("", "stop")),
        (chat("half of", finish_reason="model_length"), ("half of", "length")),
        (chat("whole", finish_reason="eos_token"), ("whole", "stop")),
        (chat(IN_PARTS), ("ab", "stop")),
    ],
    ids=["truncated", "filtered", "refused", "empty", "by another word", "ended by another word", "in parts"],
)
def test_how_a_reply_ended_is_told(complete, server, reply, expected):
    server.answers = [Answer(body=reply)]
    got = complete(REQUEST)
    assert (got.text, got.finish_reason) == expected


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (429, {"Retry-After": "7"}, (True, 7.0)), (429, {}, (True, None)), (503, {}, (True, None)),
        (401, {}, (False, None)), (404, {}, (False, None)), (400, {}, (False, None)),
    ],
)  # fmt: skip
def test_a_status_says_whether_and_when_to_try_again(complete, server, status, headers, expected):
    server.answers = [replace(refused("no", status, type="t", code=None), headers=headers)]
    with pytest.raises(ServiceError, match=str(status)) as caught:
        complete(REQUEST)
    assert (caught.value.retry, caught.value.retry_after) == expected
    assert len(server.bodies) == 1, "the driver retries, not the SDK"


def test_a_connection_that_fails_may_be_tried_again(monkeypatch):
    llm = OpenAILLM("small", api_key=KEY, base_url="http://127.0.0.1:1/v1", timeout=2)
    with pytest.raises(ServiceError) as caught:
        llm.complete(REQUEST)
    assert caught.value.retry


@pytest.mark.parametrize(
    "body", [{"object": "x"}, {"choices": []}, b"<html>not json</html>"], ids=["none", "empty", "html"]
)
def test_a_reply_of_another_kind_of_server_is_an_error(complete, server, body):
    server.answers = [Answer(body=body)]
    with pytest.raises(ServiceError):
        complete(REQUEST)


def test_no_key_is_in_repr_identity_or_errors_even_when_the_server_repeats_it(complete, llm, server):
    server.answers = [refused(f"Incorrect API key provided: {KEY} ({KEY[3:]})", 401)]
    with pytest.raises(ServiceError) as caught:
        complete(REQUEST)
    for text in (repr(llm), llm.identity, str(caught.value), repr(caught.value), repr(caught.value.__cause__)):
        assert KEY not in text
    assert caught.value.__suppress_context__
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_identity_names_place_and_model_but_no_user_or_password():
    llm = OpenAILLM("small", api_key=KEY, base_url="http://user:pass@host:11434/v1/")
    assert llm.identity == "openai:host:11434/v1/small"
    assert isinstance(llm, LLM)


def test_a_missing_key_is_said_unless_the_server_is_ones_own(monkeypatch, server):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ParameterError, match="OPENAI_API_KEY"):
        OpenAILLM("small")
    with OpenAILLM("small", base_url=server.url) as llm:
        assert llm.complete(REQUEST).text == "250 mA slow"


def test_the_driver_retries_what_may_be_tried_again_and_refuses_a_truncated_reply(llm, server):
    services = Services(llm=llm, retry=Retry(base_seconds=0.0))
    server.answers = [Answer(status=503), Answer(status=429, headers={"Retry-After": "0"}), said("in the end")]
    assert run(ask([REQUEST]), services)[0].text == "in the end"
    server.answers = [said("half of", finish_reason="length")]
    with pytest.raises(InvalidReplyError, match="length"):
        run(ask([REQUEST]), services)


def test_several_event_loops_one_after_the_other(llm, server):
    for _ in range(3):
        replies = asyncio.run(arun(ask([REQUEST, REQUEST]), Services(llm=llm)))
        assert [reply.text for reply in replies] == ["250 mA slow"] * 2
    assert len(server.bodies) == 6


# `catena ask` with a model


@pytest.fixture
def manual(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("CATENA_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "manual.md"
    file.write_text("# HX200\n\n## Fuse\n\nThe fuse is rated 250 mA slow.\n\n## Screws\n\nTighten them to 2.4 N·m.\n")
    return file.name


def test_ask_writes_an_answer_whose_citations_hold(manual, server):
    server.answers = [said("The fuse is rated 250 mA slow [1, 9].")]
    question = "Which fuse is rated for the HX200?"
    result = CliRunner().invoke(app, ["ask", manual, question, "-m", "small", "--base-url", server.url])
    assert result.exit_code == 0, result.output
    assert "The fuse is rated 250 mA slow [1]." in result.stdout
    assert "[1] HX200 › Fuse" in result.stdout
    assert "do not exist (9)" in result.stderr
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert question in server.bodies[0]["messages"][1]["content"]


def test_ask_still_shows_the_passages_when_the_model_fails(manual, server):
    server.answers = [refused(f"bad key {KEY}", 401)]
    result = CliRunner().invoke(app, ["ask", manual, "Which fuse?", "-m", "small", "--base-url", server.url])
    assert result.exit_code == 2
    assert "[1] HX200 › Fuse" in result.stdout
    assert "no answer was written" in result.stderr
    assert "Try: " in result.stderr
    assert KEY not in result.output


OPTIONS = {
    "--model-timeout": "5", "--concurrency": "2", "--requests-per-minute": "600", "--max-output-tokens": "99",
    "--reasoning-effort": "low",
}  # fmt: skip
FLAT = [word for option in OPTIONS.items() for word in option]


@pytest.mark.parametrize(
    "command",
    [
        ["ask", "manual.md", "Which fuse is rated for the HX200?", "--no-quotes", "-m", "small"],
        ["segment", "manual.md", "--llm", "small"],
        ["index", "manual.md", "--library", "library", "--context", "llm", "--llm", "small"],
        ["views", "manual.md", "--by", "llm", "--llm", "small"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_asks_a_model_takes_the_same_options_and_obeys_them(manual, server, command):
    server.answers = [said("The fuse is rated 250 mA slow [1].")]
    CliRunner().invoke(app, [*command, "--base-url", server.url, *FLAT])
    assert server.bodies
    assert {(body["max_tokens"], body["reasoning_effort"]) for body in server.bodies} == {(99, "low")}


def test_the_options_are_declared_once_for_all_commands():
    def taking(command, named):
        if hasattr(command, "commands"):
            for name in command.list_commands(None):
                yield from taking(command.get_command(None, name), f"{named} {name}")
        options = {option for each in command.params for option in each.opts}
        if "--base-url" in options:
            yield named, options

    found = dict(taking(get_command(app), "catena"))
    assert {"catena ask", "catena search", "catena index", "catena judge", "catena server index"} <= set(found)
    assert not [name for name, options in found.items() if not set(OPTIONS) <= options]
