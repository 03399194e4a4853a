"""Log directories examined without a broker: verified, repaired, listed; no original is ever written to."""
