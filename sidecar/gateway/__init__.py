"""The agents' API of section 5 of the design: parse, hand on, reply."""
