"""The other packets of the binary protocol as bytes ([MS-MQQB] 2.2)."""
