"""Measurements that are too long or too noisy to be tests."""
