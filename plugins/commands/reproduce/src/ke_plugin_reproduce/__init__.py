"""Run published tables and figures again, and compare each number with the published one."""
