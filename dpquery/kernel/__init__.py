"""How much noise, at which loss, and the gate: whatever is released went through here, and was charged before."""
