"""Capture files: pcap and pcapng, the IP packets in them, and TCP connections put together."""
