"""PGM for multicast messages ([MC-MQSRM] 2.1.2-2.1.3, RFC 3208): source and receiver roles."""
