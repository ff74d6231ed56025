"""The optimizer takes the same steps as torch's."""

import pytest
import torch

from unflip.deep.adam import Adam


def test_adam_is_torchs_adam():
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=generator).requires_grad_() for shape in ((40, 7), (5,), (), (3,))]
    theirs = [p.detach().clone().requires_grad_() for p in ours]
    pair = [
        kind([{"params": ps[:1], "lr": 0.1}, {"params": ps[1:]}], weight_decay=0.1, betas=(0.8, 0.99), **options)
        for kind, ps, options in ((Adam, ours, {}), (torch.optim.Adam, theirs, {"fused": True}))
    ]
    for step in range(20):
        for k, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            if k < 2 or (k == 2 and step % 2):  # one without a gradient now and then, one always
                p.grad = torch.randn(p.shape, generator=generator)
                q.grad = p.grad.clone()
            else:
                p.grad = q.grad = None
        for optimizer in pair:
            optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(ours, theirs, strict=True))
    states = [optimizer.state_dict() for optimizer in pair]
    assert states[0]["state"].keys() == states[1]["state"].keys()
    assert states[0]["param_groups"] == states[1]["param_groups"]
    for k in states[0]["state"]:
        assert all(torch.equal(value, states[1]["state"][k][name]) for name, value in states[0]["state"][k].items())
    with pytest.raises(ValueError, match="closure"):
        pair[0].step(lambda: 0)
