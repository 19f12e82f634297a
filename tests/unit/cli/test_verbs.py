"""Verbs when nothing runs, and how they refuse."""

import json

import pytest

from tests.unit.cli.runner import run


@pytest.fixture
def deployment(monkeypatch, short_folder):
    """The configuration of a deployment of which nothing runs."""
    run(monkeypatch, "init", "--dir", short_folder, "--agents", "pm,qa")
    return short_folder / "multiclaw.toml"


def test_status_of_what_is_down_has_the_whole_shape(monkeypatch, deployment):
    """Tools find every field when all is down: nulls for what nobody can tell, and the exit status 1."""
    result = run(monkeypatch, "status", "--config", deployment, "--json")
    document = json.loads(result.out)
    folder = deployment.parent
    assert result.status == 1
    assert document["adapter"] == {
        "pid": None,
        "socket": f"{folder}/run/adapter.sock",
        "ready": False,
        "reason": f"nothing answers at {folder}/run/adapter.sock",
        "sqlite_version": None,
        "governor_unread": None,
        "warnings": [],
    }
    assert list(document["agents"]) == ["pm", "qa"]
    assert document["agents"]["qa"] == {
        "pid": None,
        "socket": f"{folder}/run/sidecar-qa.sock",
        "url": None,
        "token_file": f"{folder}/state/sidecar-qa/token",
        "ready": False,
        "reason": f"nothing answers at {folder}/run/sidecar-qa.sock",
        "queue_depth": None,
        "last_seen": None,
        "outbox_depth": None,
        "breaker": None,
        "conditions": [],
    }


def test_status_does_not_believe_a_port_file_of_a_dead_sidecar(monkeypatch, deployment):
    """After `kill -9` the file is still there, and another program may have the port: no address is told."""
    (deployment.parent / "state" / "sidecar-qa" / "port").write_text("4711")
    document = json.loads(run(monkeypatch, "status", "--config", deployment, "--json").out)
    assert document["agents"]["qa"]["url"] is None


def test_status_for_people_says_what_to_do_next(monkeypatch, deployment):
    """The table is followed by the reasons and by the next command."""
    result = run(monkeypatch, "status", "--config", deployment)
    assert result.status == 1
    assert "qa is not ready: nothing answers" in result.out
    assert f"next: multiclaw up --config {deployment}" in result.out


@pytest.mark.parametrize("verb", [("status",), ("up",), ("recv", "--as", "qa"), ("wait-ready",)])
def test_a_missing_configuration_names_the_command_that_makes_one(monkeypatch, short_folder, verb):
    """Status 78, and `multiclaw init` with the folder that was meant."""
    result = run(monkeypatch, *verb, "--config", short_folder / "multiclaw.toml")
    assert result.status == 78
    assert f"multiclaw init --dir {short_folder}" in result.err


def test_the_configuration_is_taken_from_the_environment(monkeypatch, deployment):
    """MULTICLAW_CONFIG stands in for `--config`."""
    monkeypatch.setenv("MULTICLAW_CONFIG", str(deployment))
    assert "adapter.sock" in run(monkeypatch, "status", "--json").out


def test_wait_ready_gives_up_with_its_own_status(monkeypatch, deployment):
    """69, with the reason, so that a unit that needs the adapter fails instead of starting without it."""
    result = run(monkeypatch, "wait-ready", "--timeout", "0.2", "--config", deployment)
    assert result.status == 69
    assert "not ready within 0.2 s: nothing answers" in result.err


@pytest.mark.parametrize("verb", [("recv",), ("send", "--to", "@pm", "--type", "note/1", "--payload", "{}")])
def test_a_sidecar_that_is_away_has_its_own_status(monkeypatch, deployment, verb):
    """69, and the commands that start it or look at it."""
    monkeypatch.setattr("multiclaw.cli.acting._RETRY_SECONDS", 0.0)
    result = run(monkeypatch, *verb, "--as", "qa", "--config", deployment)
    assert result.status == 69
    assert "multiclaw sidecar --agent qa" in result.err
    assert "multiclaw status" in result.err


def test_a_send_of_unknown_fate_names_the_key_to_repeat_it_with(monkeypatch, deployment):
    """Trying again by hand must not be able to double the message."""
    monkeypatch.setattr("multiclaw.cli.acting._RETRY_SECONDS", 0.0)
    send = ("send", "--as", "qa", "--to", "@pm", "--type", "note/1", "--payload", "{}", "--config", deployment)
    key = "1c9f2b8e-5d0a-4c1e-9a54-0d8f6a3b7c21"
    assert f"add: --key {key}" in run(monkeypatch, *send, "--key", key).err


def test_an_unknown_agent_is_named_with_the_nearest_known(monkeypatch, deployment):
    """A typo in `--as` never becomes a connection to nowhere."""
    result = run(monkeypatch, "recv", "--as", "qaa", "--config", deployment)
    assert result.status == 78
    assert "no agent 'qaa'. Did you mean 'qa'? The agents are: pm, qa" in result.err


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("{text: 1}", "not acceptable JSON"),
        ("", "not acceptable JSON"),
        ('{"a":1,"a":2}', "(at /a)"),
        ('{"n":1e400}', "(at /n)"),
        ('{"n":12345678901234567890.5}', "(at /n)"),
        ("[NaN]", "not acceptable JSON"),
        ('"\\ud800"', "not acceptable JSON"),
    ],
)
def test_a_payload_that_would_not_arrive_as_written_is_refused(monkeypatch, deployment, payload, words):
    """Status 1 before anything is sent; the words name the place and show how to quote."""
    send = ("send", "--as", "qa", "--to", "@pm", "--type", "note/1", "--config", deployment)
    result = run(monkeypatch, *send, "--payload", payload)
    assert result.status == 1
    assert words in result.err
    assert """--payload '{"text": "hello"}'""" in result.err


@pytest.mark.parametrize("options", [(), ("--payload", "1", "--payload-file", "x")])
def test_a_send_needs_exactly_one_payload(monkeypatch, deployment, options):
    """Neither and both are wrong use: status 2."""
    send = ("send", "--as", "qa", "--to", "@pm", "--type", "note/1", "--config", deployment)
    assert run(monkeypatch, *send, *options).status == 2


def test_a_payload_file_that_is_not_there_is_named(monkeypatch, deployment):
    """No traceback for a wrong file name."""
    send = ("send", "--as", "qa", "--to", "@pm", "--type", "note/1", "--config", deployment)
    result = run(monkeypatch, *send, "--payload-file", deployment.parent / "nothing.json")
    assert result.status == 1
    assert "nothing.json cannot be read: No such file" in result.err


def test_following_without_acknowledging_is_refused(monkeypatch, deployment):
    """It would show the same messages for ever."""
    assert run(monkeypatch, "recv", "--as", "qa", "--follow", "--no-ack", "--config", deployment).status == 2


def test_help_lists_every_verb_and_the_exit_statuses(monkeypatch):
    """The lazy table of verbs and the registered verbs agree."""
    out = run(monkeypatch, "--help").out
    for word in ("init", "up", "status", "send", "recv", "adapter", "sidecar", "wait-ready", "Exit status"):
        assert word in out
