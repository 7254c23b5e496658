"""A teacher's labels: their forms, how far they can be trusted, where they are kept, how LLM answers become them."""
