"""Who may connect: users, tokens, SCRAM, TLS, and the turns that users share."""
