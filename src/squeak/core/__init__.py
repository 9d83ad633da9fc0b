"""The primitives that everything else is built from; each is written once."""
