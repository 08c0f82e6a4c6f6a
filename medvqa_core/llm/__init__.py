"""Language models as engines: chat requests and replies, servers, replies read as JSON."""
