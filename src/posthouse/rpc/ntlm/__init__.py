"""NTLM for DCE/RPC: messages, keys and the session, [MS-NLMP]."""
