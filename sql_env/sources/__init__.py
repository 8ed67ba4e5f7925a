"""Questions and databases from elsewhere: Spider, BIRD, one's own; read, checked, prepared."""
