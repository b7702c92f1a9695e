"""Checks a guarantee from outside: the engine over made-up neighbours, its noise, the ledger, the catalog's risks."""
