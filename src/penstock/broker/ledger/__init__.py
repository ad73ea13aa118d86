"""The ledger: what happened to every message of every queue, written down for audits."""
