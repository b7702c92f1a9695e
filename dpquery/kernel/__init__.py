"""How much noise, at which loss, and the gate: every release goes through here, and is charged before."""
