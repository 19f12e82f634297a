"""The crash laboratory: what is left on the disk when the power fails, after every single operation on it.

    recording   runs a scenario on a disk that notes every change (`tests/support/diskshim.c`), and reads the notes
    disk        what a disk may hold when the power fails at that moment
    adapter     the scenario of the adapter, and what must be found of it afterwards
    sidecar     the same of a sidecar
    mutants     durability broken on purpose, which the sweep must notice
    sweep       every cut of a recording, checked

`python -m tests.crash` is the whole sweep; the tests take a share of it.
"""
