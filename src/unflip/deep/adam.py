"""Adam with as little around its arithmetic as there can be."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Adam(torch.optim.Adam):
    """``torch.optim.Adam(fused=True)`` whose step goes straight to the fused kernel: the same numbers, the same state.

    On one core the wrappers of torch's ``step`` (profiler, hooks, checks of every tensor) cost as much as the
    arithmetic of a small network. Hooks that are registered on the optimiser are not called.

    Parameters
    ----------
    params : iterable of parameters or of groups
    lr : float, default=1e-3
    betas : tuple of float, default=(0.9, 0.999)
    eps : float, default=1e-8
    weight_decay : float, default=0.0
        The L2 penalty.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = Adam([w], lr=0.1)
    >>> (w * torch.tensor([3.0, -5.0])).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.9000, 1.1000])
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is not None:
            raise ValueError("this Adam takes no closure: compute the loss and its gradient, then call step()")
        with torch.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if not params:
                    continue
                states = [self.state[p] or self._start(p) for p in params]
                steps = [state["step"] for state in states]
                torch._foreach_add_(steps, 1)
                torch._fused_adam_(
                    params,
                    [p.grad for p in params],
                    [state["exp_avg"] for state in states],
                    [state["exp_avg_sq"] for state in states],
                    [],
                    steps,
                    lr=group["lr"],
                    beta1=group["betas"][0],
                    beta2=group["betas"][1],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    amsgrad=False,
                    maximize=False,
                )

    step.hooked = True  # type: ignore[attr-defined]  # else torch wraps it, and the wrapper is what costs

    def _start(self, p: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[p]
        state["step"] = torch.zeros((), dtype=torch.float32, device=p.device)
        state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        state["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return state
