"""Messages, types and rows of the protocol, and what the wire asks of the engine."""
