"""`multiclaw init`."""

import stat
import tomllib

import pytest

from shared.config import load
from shared.keys import load_keyring
from tests.unit.cli.runner import run


@pytest.fixture
def init(monkeypatch, short_folder):
    """`multiclaw init --dir FOLDER …`."""
    return lambda *more: run(monkeypatch, "init", "--dir", short_folder, *more)


def tree(folder):
    """Every path under it with its mode and, for files, its bytes."""
    return {
        path.relative_to(folder): (stat.S_IMODE(path.lstat().st_mode), path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


def test_the_default_topology_is_the_seven_of_the_design(init, short_folder):
    """Six agents with their roles and the three channels; the adapter, which is always there, is not listed."""
    assert init().status == 0
    config = load(short_folder / "multiclaw.toml", {})
    execution = dict.fromkeys(("engineering", "qa", "research", "growth"), "execution")
    roles = {name: agent.role for name, agent in config.agents.items()}
    assert roles == {"orchestrator": "orchestrator", "pm": "pm", **execution}
    members = {name: channel.members for name, channel in config.channels.items()}
    everybody = list(config.agents)
    assert members == {
        "all-agents": everybody,
        "product": everybody,
        "platform": ["orchestrator", "pm", "engineering"],
    }


def test_what_is_secret_is_private(init, short_folder):
    """Keys and tokens have mode 0600 in folders of mode 0700, and no two of them are equal."""
    init()
    config = load(short_folder / "multiclaw.toml", {})
    secrets = []
    for agent in config.agents:
        key, token = short_folder / "keys" / f"{agent}.key", short_folder / "state" / f"sidecar-{agent}" / "token"
        assert [stat.S_IMODE(path.stat().st_mode) for path in (key, token)] == [0o600, 0o600]
        assert [stat.S_IMODE(path.parent.stat().st_mode) for path in (key, token)] == [0o700, 0o700]
        secrets += [load_keyring(config.paths.keys, agent).current.secret, token.read_bytes()]
    governor = short_folder / "keys" / "human-governor.key"
    assert stat.S_IMODE(governor.stat().st_mode) == 0o600
    secrets.append(load_keyring(config.paths.keys, "human-governor").current.secret)
    assert len(set(secrets)) == 13
    assert all(len(secret) >= 32 for secret in secrets)
    for name in ("state", "run", "keys", "contracts"):
        assert stat.S_IMODE((short_folder / name).stat().st_mode) == 0o700


def test_a_second_run_changes_nothing_and_says_so(init, short_folder):
    """Running it again is safe: not a byte or a mode of what is there changes."""
    init()
    before = tree(short_folder)
    again = init()
    assert (again.status, tree(short_folder)) == (0, before)
    assert "nothing was missing" in again.out


def test_it_makes_what_is_missing_for_agents_added_by_hand(init, short_folder):
    """A person edits the file; `init` makes the new agent's key and token, names them, and leaves the others."""
    init()
    before = tree(short_folder)
    with (short_folder / "multiclaw.toml").open("a") as file:
        file.write("[agents.legal]\n")
    (short_folder / "keys" / "qa.key").unlink()
    said = init()
    after = tree(short_folder)
    made = {str(path) for path in after if path not in before}
    assert made == {"keys/legal.key", "state/sidecar-legal", "state/sidecar-legal/token"}
    changed = {str(path) for path in before if after[path] != before[path]}
    assert changed == {"multiclaw.toml", "keys/qa.key"}
    assert all(f"made {short_folder / path}" in said.out for path in (*made, "keys/qa.key"))


def test_other_agents_can_be_asked_for(init, short_folder):
    """`--agents` makes a topology of those, each in every channel, where no name asks for another role."""
    assert init("--agents", "pm,writer").status == 0
    document = tomllib.loads((short_folder / "multiclaw.toml").read_text())
    assert document["agents"] == {"pm": {"role": "pm"}, "writer": {"role": "execution"}}
    assert document["channels"]["product"]["members"] == ["pm", "writer"]
    assert document["channels"]["platform"]["members"] == ["pm"]
    assert load(short_folder / "multiclaw.toml", {}).agents.keys() == {"pm", "writer"}


def test_other_agents_for_a_deployment_that_stands_are_refused(init, short_folder):
    """What is there is never overwritten, and a wish that was not fulfilled is not called done."""
    init("--agents", "a,b")
    before = tree(short_folder)
    refusal = init("--agents", "a,c")
    assert refusal.status == 78
    assert "with the agents a, b" in refusal.err
    assert tree(short_folder) == before


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ("Qa", "'Qa' is not a name"),
        ("a,,b", "'' is not a name"),
        ("adapter", "'adapter' is reserved"),
        ("a,a", "twice"),
    ],
)
def test_bad_names_are_refused_before_anything_is_made(init, short_folder, agents, words):
    """A topology that no process would load is not written."""
    refusal = init("--agents", agents)
    assert refusal.status == 78
    assert words in refusal.err
    assert tree(short_folder) == {}


def test_a_folder_too_deep_for_sockets_is_refused_with_the_length(monkeypatch, short_folder):
    """Seven processes would fail to listen there; the person learns it now, and that no key was made."""
    deep = short_folder / ("x" * 100)
    refusal = run(monkeypatch, "init", "--dir", deep)
    assert refusal.status == 78
    assert "bytes, and the limit is 107" in refusal.err
    assert not (deep / "keys").exists()


def test_a_broken_file_is_named_and_left(init, short_folder):
    """A file that cannot be read is not replaced by a new one."""
    (short_folder / "multiclaw.toml").write_text("[agents\n")
    refusal = init()
    assert refusal.status == 78
    assert "multiclaw.toml cannot be read" in refusal.err
    assert (short_folder / "multiclaw.toml").read_text() == "[agents\n"


def test_a_place_that_cannot_be_written_is_an_error_not_a_traceback(monkeypatch, short_folder):
    """A file in the way of the folder is named."""
    (short_folder / "file").write_text("")
    refusal = run(monkeypatch, "init", "--dir", short_folder / "file" / "deployment")
    assert refusal.status == 78
    assert "file" in refusal.err
