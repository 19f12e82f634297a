"""How an agent finds its sidecar, and what it is told when it cannot."""

from pathlib import Path

import pytest

from multiclaw import ConfigurationError
from multiclaw.client.discovery import Location, find


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "multiclaw.toml"
    path.write_text('[agents.qa]\n[agents.engineering]\n[channels.product]\nmembers = ["qa"]\n')
    return path


def test_the_socket_is_derived_from_the_configuration(config):
    """The default run folder lies beside the file."""
    assert find("qa", Location(config=config), {}).socket == config.parent / "run" / "sidecar-qa.sock"


def test_the_run_folder_is_the_files(config):
    """`paths.run` is relative to the file; the environment overrides it as it does for the sidecar."""
    config.write_text('[paths]\nrun = "r"\n[agents.qa]\n')
    assert find("qa", Location(config=config), {}).socket == config.parent / "r" / "sidecar-qa.sock"
    environ = {"MULTICLAW_PATHS__RUN": "/elsewhere"}
    assert find("qa", Location(config=config), environ).socket == Path("/elsewhere/sidecar-qa.sock")


def test_arguments_win_over_the_environment(config):
    """What is said in code is not changed by what is set outside."""
    environ = {"MULTICLAW_SOCKET": "/env.sock", "MULTICLAW_URL": "http://127.0.0.1:1", "MULTICLAW_TOKEN": "t"}
    assert find("qa", Location(socket="/arg.sock"), environ).socket == Path("/arg.sock")
    assert find("qa", Location(config=config), environ).socket == config.parent / "run" / "sidecar-qa.sock"


def test_the_environment_is_used_when_nothing_is_said(config, tmp_path):
    """Socket before URL before configuration; the token from its variable or its file."""
    assert find("qa", Location(), {"MULTICLAW_CONFIG": str(config)}).socket is not None
    environ = {"MULTICLAW_URL": "http://127.0.0.1:81/", "MULTICLAW_CONFIG": str(config), "MULTICLAW_TOKEN": "secret"}
    found = find("qa", Location(), environ)
    assert (found.url, found.token, found.socket) == ("http://127.0.0.1:81", "secret", None)
    assert "secret" not in repr(found)
    (tmp_path / "token").write_text("from-file\n")
    environ |= {"MULTICLAW_TOKEN_FILE": str(tmp_path / "token")}
    del environ["MULTICLAW_TOKEN"]
    assert find("qa", Location(), environ).token == "from-file"  # noqa: S105 - a made-up token
    assert find("qa", Location(), environ | {"MULTICLAW_SOCKET": "/s"}).socket == Path("/s")


@pytest.mark.parametrize(
    ("name", "location", "words"),
    [
        ("qa", Location(), "MULTICLAW_CONFIG"),
        ("QA!", Location(socket="/s"), "not an agent's name"),
        ("qa\n", Location(socket="/s"), "not an agent's name"),
        ("qa", Location(socket="/s", url="http://x"), "one of"),
        ("qa", Location(socket="/s", token="t"), "a token is for a url"),  # noqa: S106 - a made-up token
        ("qa", Location(socket="/" + "x" * 107), "108 bytes"),
        ("qa", Location(config="/nowhere/multiclaw.toml"), "multiclaw init --dir /nowhere"),
        ("qa", Location(url="127.0.0.1:80"), "looks like http://"),
        ("qa", Location(url="http://x", token_file="/nowhere/token"), "cannot be read"),  # noqa: S106 - a path
        ("qa", Location(url="http://x", token="two words"), "header"),  # noqa: S106 - a made-up token
    ],
)
def test_what_is_wrong_is_said(name, location, words):
    """Every mistake has its own clear error."""
    with pytest.raises(ConfigurationError, match=words):
        find(name, location, {})


def test_an_unknown_agent_gets_a_hint(config):
    """A misspelt name is answered with the nearest known one."""
    with pytest.raises(ConfigurationError, match="Did you mean 'engineering'"):
        find("enginering", Location(config=config), {})


def test_a_broken_file_is_named(config):
    """A file that is not TOML is named with what is wrong."""
    config.write_text("[agents")
    with pytest.raises(ConfigurationError, match=r"multiclaw\.toml cannot be read"):
        find("qa", Location(config=config), {})
