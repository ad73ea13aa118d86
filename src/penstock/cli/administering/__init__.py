"""What all operators' commands share: login, requests, tables, exit codes."""
