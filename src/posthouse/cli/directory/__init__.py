"""`posthouse directory`: machines, sites, links, users, aliases."""
