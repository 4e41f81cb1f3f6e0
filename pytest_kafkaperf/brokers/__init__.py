"""What the brokers did in a round: samples of each, and what they fold into."""
