"""Who may do what: users, passwords, permissions, and the delay of failed logins."""
