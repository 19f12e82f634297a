"""What a change of members makes of the members there are, and what is refused of it."""

import pytest

from adapter.core.membership import differences
from adapter.core.reshaping import reshaped
from shared.config import Membership
from shared.problems import Problem
from shared.topology import AGENTS_MAX, TopologyChange
from tests.support.factories import AGENTS, membership


def change(agents=None, channels=None):
    return TopologyChange.model_validate({"agents": agents or {}, "channels": channels or {}})


def test_an_agent_joins_and_is_named_by_the_same_change():
    """Its role and port are as proposed; it joins behind those who are there."""
    after = reshaped(
        membership(),
        change(
            {"add": {"ops": {"role": "execution", "port": 7_001}}},
            {"change": {"product": {"add": ["ops"]}}, "add": {"incidents": {"members": ["qa", "ops"]}}},
        ),
    )
    assert (after.agents["ops"].role, after.agents["ops"].port) == ("execution", 7_001)
    assert after.channels["product"].members == [*AGENTS, "ops"]
    assert after.channels["incidents"].members == ["qa", "ops"]
    assert Membership.model_validate(after.model_dump()) == after


def test_an_agent_that_leaves_is_in_no_channel_any_more():
    """Nobody has to name each channel."""
    after = reshaped(membership(), change({"remove": ["growth"]}))
    assert "growth" not in after.agents
    assert not any("growth" in channel.members for channel in after.channels.values())
    assert after.channels["product"].members == [agent for agent in AGENTS if agent != "growth"]


def test_a_channel_ends_and_members_leave():
    """What is not named stays as it is."""
    after = reshaped(
        membership(), change(channels={"remove": ["all-agents"], "change": {"product": {"remove": ["qa", "pm"]}}})
    )
    assert sorted(after.channels) == ["platform", "product"]
    assert after.channels["product"].members == ["orchestrator", "engineering", "research", "growth"]
    assert after.agents == membership().agents


@pytest.mark.parametrize(
    ("agents", "channels", "field"),
    [
        ({"add": {"qa": {}}}, None, "/change/agents/add/qa"),
        ({"add": {"adapter": {}}}, None, "/change/agents/add/adapter"),
        ({"add": {"human-governor": {}}}, None, "/change/agents/add/human-governor"),
        ({"remove": ["pm", "nobody"]}, None, "/change/agents/remove/1"),
        ({"remove": ["orchestrator"]}, None, "/change/agents/remove"),
        (None, {"add": {"product": {"members": []}}}, "/change/channels/add/product"),
        (None, {"add": {"x": {"members": ["qa", "nobody"]}}}, "/change/channels/add/x/members/1"),
        (None, {"add": {"x": {"members": ["qa", "qa"]}}}, "/change/channels/add/x/members/1"),
        (None, {"remove": ["nowhere"]}, "/change/channels/remove/0"),
        (None, {"remove": ["product", "platform"]}, "/change/channels/remove/1"),
        (None, {"change": {"nowhere": {"add": ["qa"]}}}, "/change/channels/change/nowhere"),
        (None, {"change": {"product": {"add": ["nobody"]}}}, "/change/channels/change/product/add/0"),
        (None, {"change": {"product": {"add": ["qa"]}}}, "/change/channels/change/product/add/0"),
        (None, {"change": {"platform": {"add": ["qa", "qa"]}}}, "/change/channels/change/platform/add/1"),
        (None, {"change": {"platform": {"remove": ["qa"]}}}, "/change/channels/change/platform/remove/0"),
        (None, {"change": {"platform": {"add": ["human-governor"]}}}, "/change/channels/change/platform/add/0"),
        ({"remove": ["qa"]}, {"change": {"product": {"remove": ["qa"]}}}, "/change/channels/change/product/remove/0"),
        ({"remove": ["qa"]}, {"change": {"platform": {"add": ["qa"]}}}, "/change/channels/change/platform/add/0"),
        (None, {"remove": ["product"], "change": {"product": {"remove": ["qa"]}}}, "/change/channels/change/product"),
        ({"add": {f"a{n}": {} for n in range(AGENTS_MAX - 5)}}, None, "/change/agents/add"),
    ],
)
def test_what_cannot_be_is_pointed_at(agents, channels, field):
    """Each refusal names the place in the request."""
    with pytest.raises(Problem) as caught:
        reshaped(membership(), change(agents, channels))
    assert (caught.value.kind, caught.value.field) == ("invalid-field", field)


def test_the_adapter_leaves_no_channel_it_was_put_into():
    """It would go on being a member of `platform` whatever the file says."""
    before = Membership.model_validate(
        {"agents": {"a": {}}, "channels": {"platform": {"members": ["adapter", "a"]}, "x": {"members": ["adapter"]}}}
    )
    with pytest.raises(Problem, match="leaves no channel"):
        reshaped(before, change(channels={"change": {"x": {"remove": ["adapter"]}}}))
    assert reshaped(before, change({"remove": ["a"]})).channels["platform"].members == ["adapter"]


def test_the_last_orchestrator_may_be_replaced():
    """As long as there is one."""
    after = reshaped(membership(), change({"add": {"boss": {"role": "orchestrator"}}, "remove": ["orchestrator"]}))
    assert [name for name, agent in after.agents.items() if agent.role == "orchestrator"] == ["boss"]


def test_a_deployment_beyond_the_plan_may_shrink():
    """Its file was written so by hand; only growth is refused."""
    many = membership((*AGENTS, *(f"a{n}" for n in range(AGENTS_MAX))))
    assert len(reshaped(many, change({"remove": ["a0"]})).agents) == len(many.agents) - 1
    with pytest.raises(Problem, match="is the most"):
        reshaped(many, change({"add": {"one-more": {}}}))


def test_a_typo_is_answered_with_what_was_meant():
    """The nearest name is offered."""
    with pytest.raises(Problem, match="Did you mean 'growth'"):
        reshaped(membership(), change({"remove": ["grwoth"]}))


def test_differences_are_told_in_words():
    """One sentence for each, in the order of agents, then channels."""
    before = membership()
    after = reshaped(
        before,
        change(
            {"add": {"ops": {"role": "pm"}}, "remove": ["growth"]},
            {"add": {"new": {"members": []}}, "remove": ["all-agents"], "change": {"platform": {"add": ["qa"]}}},
        ),
    )
    assert differences(before, after) == (
        "agent growth leaves",
        "agent ops joins as pm",
        "channel all-agents ends",
        "growth leaves product",
        "qa joins platform",
        "channel new begins, with nobody",
    )
    assert differences(before, before) == ()


def test_a_file_differs_in_what_no_proposal_can_change():
    """Roles, ports, and the order in which members are reported."""
    before = membership(("orchestrator", "qa"))
    after = Membership.model_validate(
        {
            "agents": {"orchestrator": {"role": "orchestrator"}, "qa": {"role": "pm", "port": 9}},
            "channels": before.model_dump()["channels"] | {"product": {"members": ["qa", "orchestrator"]}},
        }
    )
    assert differences(before, after) == (
        "agent qa is pm at port 9, and was execution at 0",
        "the members of product are reported in another order",
    )
