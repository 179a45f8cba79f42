"""The decode room: batches of token ids go in, hypotheses come out; it knows steps, not retrieval."""
