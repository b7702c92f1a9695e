"""Queries of the wire over a `Session`: routing, declared columns, parameters, settings."""
