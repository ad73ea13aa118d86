"""What each protocol's words mean to the broker. Wire says what was said, a dialect says what it
means, the broker does it.
"""
