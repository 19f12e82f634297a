"""`multiclaw bench`: how fast a deployment takes, keeps and hands over messages, and whether it lost any.

A measurement starts a deployment of its own in a temporary folder (real processes, a real store), loads it from this
process over the very sockets that agents and sidecars use, and then counts: what was received must be what was sent.

A workload (`workloads`) says what is done, a way (`ways`) says how requests are put and answers read. A peer to compare
with is one more way.
"""
