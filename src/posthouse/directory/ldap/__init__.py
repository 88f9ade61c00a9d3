"""Objects of the directory as LDAP entries, both ways ([MS-MQDSSM] 2.2)."""
