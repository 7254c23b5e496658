# %% [markdown]
# # Labels from a crowd
#
# Six people each labelled about half of 1,500 messages. Four are good, one is careless, one answers `technical`
# whatever the message says. 120 rows were checked.

# %%
from pathlib import Path

import pandas as pd

import understudy as us
from understudy.samples import write_tickets

write_tickets(Path("tickets"))
messages, crowd, gold = (pd.read_csv(f"tickets/{name}.csv") for name in ("messages", "crowd", "gold"))
crowd.head()

# %% [markdown]
# Votes are columns `teacher_vote_NAME`, empty where an annotator did not see the row.

# %%
people = [name for name in crowd.columns if name != "id"]
pool = messages.merge(crowd.rename(columns={name: f"teacher_vote_{name}" for name in people}), on="id")
pool.to_csv("pool.csv", index=False)
votes = crowd.set_index("id")[people]
majority = votes.mode(axis=1)[0].reindex(gold["id"]).to_numpy()
print(f"majority vote on gold: {(majority == gold['label'].to_numpy()).mean():.1%}")

# %% [markdown]
# How accurate is each of them on gold?

# %%
right = votes.reindex(gold["id"]).eq(gold["label"].to_numpy(), axis=0)[votes.reindex(gold["id"]).notna()]
right.mean().round(2)

# %%
model = us.fit("tickets/gold.csv", "pool.csv", text="message", votes="dawid_skene", encoder="none", progress=False)
print(model)

# %%
test = pd.read_csv("tickets/test.csv")
print(f"accuracy on {len(test)} new messages: {(model.predict(test['message']) == test['label']).mean():.1%}")
