"""The sending end of a binary session, for clients ([MS-MQQB])."""
