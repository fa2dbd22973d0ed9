"""Signoff: agent workflows as REST resources that stop, durably, wherever a person has to decide."""
