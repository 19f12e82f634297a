"""The shape of ours without its promises: what synced inserts and hops over HTTP cost at least on our packages.

One process appends messages to one table, with our group commit, and keeps a place in it for each receiver (`store`);
one for each agent may stand before it and pass on what it reads (`hop`). Nothing is signed, checked, deduplicated,
counted, limited, retried or audited.
"""
