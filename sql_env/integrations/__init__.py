"""SQLEnv inside other frameworks. Each adapter is thin, optional, and imported by nothing."""
