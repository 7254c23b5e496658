# %% [markdown]
# # A big model to a small one
#
# A net of 85,000 weights labels 1,060 images of digits; 100 others were labelled by hand. A net of 2,410 weights learns
# from both.

# %%
import torch

import understudy as us

x, y = us.digits()
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))  # they come sorted by who wrote them
x, y = x[order], y[order]
big = us.train(
    lambda: us.models.mlp(64, 10, hidden=(256, 256)),
    us.Gold(x[:100], y[:100]),
    None,
    us.vanilla(),
    epochs=60,
    progress=False,
).student
probs = us.teach(big, x)
gold = us.Gold(x[100:200], y[100:200], teacher=probs[100:200])
pool = us.Pool(x[200:1260], probs[200:1260])
test = us.Gold(x[1260:], y[1260:])
print(f"the big model on {len(test)} test rows: {us.evaluate(big, test)['accuracy']:.1%}")

# %% [markdown]
# Before any training: how good are the big model's labels, by the 100 rows that it has not seen?

# %%
for sentence in us.audit(gold, pool).verdict:
    print(sentence)

# %% [markdown]
# `us.auto` cross-validates several methods on gold, and weighs all sources of labels.


# %%
def small():
    return us.models.mlp(64, 10, hidden=(32,))


options = {"epochs": 60, "batch_size": 64, "lr": 3e-3, "schedule": "cosine", "test": test, "progress": False}
run = us.auto(small, gold, pool, workers=1, **options)
print(f"{run.config['auto']['choice']}: {run.history[-1]['test_accuracy']:.1%}")

# %% [markdown]
# Beside it, what one would do otherwise: copy the big model, or train on the hand-made labels alone.

# %%
copied = us.train(small, gold, pool, us.vanilla(), **options)
alone = us.train(small, us.Gold(gold.x, gold.y), None, us.vanilla(), **options | {"epochs": 600})
for name, other in {"copied": copied, "gold alone": alone}.items():
    print(f"{name}: {other.history[-1]['test_accuracy']:.1%}")

# %% [markdown]
# The small model as a file that needs no PyTorch:

# %%
us.export(run, "small.onnx")
