# %% [markdown]
# # Labels from an LLM
#
# 1,500 messages to a shop, all labelled by an LLM, 120 of them checked by a person. (The messages are made up; your own
# CSV goes the same way.)

# %%
from pathlib import Path

import pandas as pd

import understudy as us
from understudy.samples import write_tickets

write_tickets(Path("tickets"))
table = pd.read_csv("tickets/mine.csv")
table.head()

# %% [markdown]
# `checked` is empty where no person looked. How accurate is the LLM on the others?

# %%
both = table.dropna(subset=["llm", "checked"])
print(f"{len(both)} checked rows; accuracy of the LLM: {(both.llm == both.checked).mean():.0%}")

# %% [markdown]
# One call trains on both kinds of labels. What is not given is chosen by cross-validation on the checked rows.

# %%
model = us.fit("tickets/mine.csv", text="message", label="checked", teacher="llm", encoder="none", progress=False)
print(model)

# %% [markdown]
# Raw rows in, class names out.

# %%
model.predict(["When will my parcel arrive?", "The app crashes since the update"])

# %% [markdown]
# Is it better than its teacher on messages that neither has seen?

# %%
test = pd.read_csv("tickets/test.csv")
print(f"accuracy on {len(test)} new messages: {(model.predict(test['message']) == test['label']).mean():.1%}")

# %% [markdown]
# The LLM's labels that are most likely wrong, with their text and the label suggested instead:

# %%
model.suspects().head(5)

# %% [markdown]
# And the messages that are worth checking next:

# %%
model.next_to_label(table[table.checked.isna()], 5)
