"""The whole system in one process and in virtual time: real adapter, real sidecars, real sockets, real SQLite.

    loop    an event loop whose clock jumps to the next thing that is due
    disk    connections that work inline, so that no thread escapes that clock, and that fail or die on request
    host    the processes of a deployment, which start, are killed, and see one wall clock that may be set
    soak    agents at work for days, faults from a seed, and the census

`python -m tests.simulation --days 10 --seed 1 --seeds 5` is the long form. A run is named by its seed.
"""
