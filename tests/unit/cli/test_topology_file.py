"""Writing the topology into the file: what is said, what is kept, and whole or not at all."""

import tomllib

import hypothesis.strategies as st
import pytest
from hypothesis import given

from multiclaw.cli.template import AGENTS_DEFAULT, topology_text
from multiclaw.cli.topology_file import rewritten, write
from shared.config import ConfigurationFault, Membership, load

TEMPLATE = topology_text(AGENTS_DEFAULT)
NAMES = (*AGENTS_DEFAULT, "ops", "audit")


def said(text):
    """What a file says of members."""
    document = tomllib.loads(text)
    return Membership.model_validate({name: document.get(name, {}) for name in ("agents", "channels")})


@st.composite
def memberships(draw):
    """Any agents and channels of a handful of names."""
    agents = draw(st.lists(st.sampled_from(NAMES), unique=True))
    members = st.lists(st.sampled_from(agents), unique=True) if agents else st.just([])
    role, port = st.sampled_from(["orchestrator", "pm", "execution"]), st.sampled_from([0, 7_001])
    return Membership.model_validate(
        {
            "agents": {name: {"role": draw(role), "port": draw(port)} for name in agents},
            "channels": {
                name: {"members": draw(members)}
                for name in draw(st.lists(st.sampled_from(["product", "platform", "all-agents", "x"]), unique=True))
            },
        }
    )


@given(first=memberships(), second=memberships())
def test_the_file_says_what_is_in_force(first, second):
    """From the file of `init`, and from any that was written before; what is not of the topology stays."""
    once = rewritten(TEMPLATE, first)
    twice = rewritten(once, second)
    assert (said(once), said(twice)) == (first, second)
    assert rewritten(twice, second) == twice
    rest = [
        {name: table for name, table in tomllib.loads(text).items() if name not in ("agents", "channels")}
        for text in (TEMPLATE, once, twice)
    ]
    assert rest[0] == rest[1] == rest[2]


@given(membership=memberships())
def test_comments_outlive_every_change(membership):
    """Those that `init` writes stand above tables that may go."""
    comments = [line for line in TEMPLATE.splitlines() if line.startswith("#")]
    assert [line for line in rewritten(TEMPLATE, membership).splitlines() if line.startswith("#")] == comments


def test_what_does_not_change_is_not_touched():
    """Line by line: one agent joins one channel."""
    after = said(TEMPLATE).model_dump()
    after["agents"]["ops"] = {"role": "pm", "port": 9}
    after["channels"]["product"]["members"].append("ops")
    before, now = TEMPLATE.splitlines(), rewritten(TEMPLATE, Membership.model_validate(after)).splitlines()
    assert [line for line in now if line not in before] == [
        "[agents.ops]",
        "port = 9",
        'members = ["orchestrator", "pm", "engineering", "qa", "research", "growth", "ops"]',
    ]
    assert [line for line in before if line not in now] == []


HAND_WRITTEN = """\
[agents]
a = {role = "pm"} # the boss
c = {}
[channels]
x = {members = ["a"]} # all of them
[channels.y]
members = [
    "a", # first
    "c", # second
]
"""


@pytest.mark.parametrize("text", [HAND_WRITTEN, "", "[agents]\n[channels]\n", "[deployment]\nname = 'x'"])
def test_other_ways_to_write_the_same_are_understood(text):
    """Inline tables, dotted keys, arrays over lines, no table at all."""
    wanted = Membership.model_validate(
        {
            "agents": {"a": {"role": "pm"}, "b": {"port": 7}},
            "channels": {"x": {"members": ["b"]}, "y": {"members": ["a", "b"]}, "z": {"members": []}},
        }
    )
    after = rewritten(text, wanted)
    assert said(after) == wanted
    assert ("# the boss" in after, "# first" in after) == ("# the boss" in text, "# first" in text)


@pytest.mark.parametrize(
    "text", ["agents.a = {}\nagents.b = {}\n", "agents = {a = {}}\n", "[agents.a]\n[limits]\n[agents.c]\n"]
)
def test_what_cannot_be_changed_in_place_is_refused(text):
    """Rather than written as something else."""
    with pytest.raises(ConfigurationFault, match="strewn"):
        rewritten(text, said(HAND_WRITTEN))


def test_the_file_before_stands_beside_it(tmp_path):
    """Mode and all; no draft is left."""
    path = tmp_path / "multiclaw.toml"
    path.write_text(TEMPLATE, encoding="utf-8")
    path.chmod(0o640)
    after = rewritten(TEMPLATE, said(HAND_WRITTEN))
    previous = write(path, after)
    assert previous.read_text(encoding="utf-8") == TEMPLATE
    assert load(path, {}).agents == said(HAND_WRITTEN).agents
    assert {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {
        "multiclaw.toml": 0o640, "multiclaw.toml.previous": 0o640,
    }  # fmt: skip


def test_a_file_that_cannot_be_written_is_left_whole(tmp_path, monkeypatch):
    """The text is complete and synced before it takes the file's place."""
    path = tmp_path / "multiclaw.toml"
    path.write_text(TEMPLATE, encoding="utf-8")
    synced = []

    def no_space(descriptor):
        synced.append(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write(path, "rubbish")
    assert synced
    assert path.read_text(encoding="utf-8") == TEMPLATE
