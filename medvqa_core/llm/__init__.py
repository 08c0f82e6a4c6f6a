"""Engines: the interface, language models behind it, chat requests and replies, servers, replies read as JSON."""
