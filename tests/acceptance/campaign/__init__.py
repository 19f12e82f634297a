"""The kill campaign: seeded rounds of traffic through real processes that are killed, stopped and started again.

    plan     what a round does, decided from its seed
    agents   senders and receivers: what agents do with a sidecar that comes and goes
    notes    what they saw, and what it must mean
    faults   the hand that kills
    leg      up to ten rounds on one deployment, with the census after each

`python -m tests.acceptance.campaign --rounds 2000 --seed 1` is the long form. A round is named by its seed alone:
a round that fails is played again, after the same rounds before it, with the command the failure prints.
"""
