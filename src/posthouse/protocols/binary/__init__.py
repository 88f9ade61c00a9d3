"""The binary protocol between queue managers, [MS-MQQB]."""
