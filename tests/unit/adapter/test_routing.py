"""Who gets a message, who may read a channel, and which line a message stands in."""

import pytest

from adapter.core.routing import Topology, order_key
from shared.config import Config
from shared.problems import Problem
from tests.support.factories import AGENTS, CHANNELS, ROLES, envelope, topology


def test_the_topology_of_a_configuration():
    """Channels, a direct channel for each agent and for the Governor, and the adapter in `platform`."""
    config = Config.model_validate(
        {
            "agents": {name: {"role": role} for name, role in ROLES.items()},
            "channels": {name: {"members": list(members)} for name, members in CHANNELS.items()},
        }
    )
    assert Topology.of(config) == topology()


def test_an_adapter_that_is_named_in_platform_is_there_once():
    """Saying what is implied changes nothing."""
    config = Config.model_validate({"agents": {"a": {}}, "channels": {"platform": {"members": ["adapter", "a"]}}})
    assert Topology.of(config).members["platform"] == ("adapter", "a")


def test_a_broadcast_reaches_every_member_the_sender_included():
    """Every member gets every message."""
    assert topology().recipients("product", "qa") == AGENTS


def test_a_direct_message_needs_no_membership():
    """Anyone may write to anyone, oneself included."""
    assert topology().recipients("@qa", "growth") == ("qa",)
    assert topology().recipients("@qa", "qa") == ("qa",)


def test_anyone_may_write_to_the_governor():
    """Its channel is there whatever the file says, and no agent reads it (promise 6)."""
    assert topology().recipients("@human-governor", "growth") == ("human-governor",)
    topology().check_reader("@human-governor", "human-governor")
    with pytest.raises(Problem, match="not-a-member"):
        topology().check_reader("@human-governor", "orchestrator")


@pytest.mark.parametrize(
    ("to", "kind"), [("platform", "not-a-member"), ("nowhere", "unknown-recipient"), ("@nobody", "unknown-recipient"),
                     ("qa", "unknown-recipient"), ("@adapter", "unknown-recipient")]
)  # fmt: skip
def test_a_recipient_that_cannot_be_is_named(to, kind):
    """The refusal points at `to`."""
    with pytest.raises(Problem) as caught:
        topology().recipients(to, "growth")
    assert (caught.value.kind, caught.value.field) == (kind, "/to")


def test_the_nearest_name_is_offered():
    """A typo is answered with what was probably meant."""
    with pytest.raises(Problem, match="Did you mean 'product'"):
        topology().recipients("prodcut", "qa")


@pytest.mark.parametrize(("channel", "kind"), [("platform", "not-a-member"), ("@pm", "not-a-member"),
                                               ("x", "unknown-recipient")])  # fmt: skip
def test_only_members_read_a_channel(channel, kind):
    """Direct channels are read by their agent alone."""
    with pytest.raises(Problem) as caught:
        topology().check_reader(channel, "qa")
    assert caught.value.kind == kind
    topology().check_reader("product", "qa")
    topology().check_reader("@qa", "qa")


def test_the_order_key_is_the_task_else_the_channel():
    """A task is one line wherever its messages go; without one the channel is (promise 3)."""
    assert order_key(envelope(to="product", task_id="t")) == order_key(envelope(to="@qa", task_id="t"))
    assert order_key(envelope(to="product")) == order_key(envelope("qa", to="product", task_id=None))
    assert order_key(envelope(to="product")) != order_key(envelope(to="@qa"))
    assert order_key(envelope(task_id="product")) != order_key(envelope(to="product"))


def test_an_order_key_fits_a_row():
    """63 bits, for any text."""
    assert all(0 <= order_key(envelope(task_id=f"t{n}")) < 2**63 for n in range(1_000))
