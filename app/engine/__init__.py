"""Runs workflows on LangGraph: compiles them, drives their agents, and says where a person has to decide."""
